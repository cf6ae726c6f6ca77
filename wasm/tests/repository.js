import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The folder of the repository. */
export const REPOSITORY = join(dirname(fileURLToPath(import.meta.url)), "../..");
