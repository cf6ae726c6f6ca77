// Where the bytes of models come from, and how many there may be.

const LIMIT = 2 ** 31;

/** Fails before so many bytes are copied into the memory of the module. */
function checkSize(bytes) {
    if (bytes >= LIMIT) {
        throw new Error(
            `the model has ${bytes} bytes, but must have less than 2 GiB: that is what a module of WebAssembly can hold ` +
                "with its 32-bit addresses",
        );
    }
}

/** The bytes of files, which are an object of them by their names. */
export function asBytes(files) {
    const all = Object.entries(files).filter(([, content]) => content !== undefined);
    const bytes = all.map(([name, content]) => {
        if (typeof content === "string") {
            return [name, new TextEncoder().encode(content)];
        }
        if (content instanceof ArrayBuffer) {
            return [name, new Uint8Array(content)];
        }
        if (content instanceof Uint8Array) {
            return [name, content];
        }
        throw new TypeError(`${name} must be an Uint8Array, an ArrayBuffer or a string`);
    });
    checkSize(bytes.reduce((sum, [, bytes]) => sum + bytes.byteLength, 0));
    return Object.fromEntries(bytes);
}

/**
 * Downloads files, all at once. `urls` are their URLs by their names; those in `optional` need not be there.
 * `onProgress({ loaded, total })` is told how many bytes of all have come; `total` is missing if a server does not say it.
 */
export async function download(urls, { onProgress, signal, optional = [] } = {}) {
    const answers = await Promise.all(
        Object.entries(urls).map(async ([name, url]) => {
            const answer = await fetch(url, { signal });
            if (answer.ok) {
                return { name, url, answer, size: sizeOf(answer) };
            }
            await answer.body?.cancel();
            if (optional.includes(name) && answer.status === 404) {
                return undefined;
            }
            throw new Error(`downloading ${url}: ${answer.status} ${answer.statusText}`);
        }),
    );
    const found = answers.filter((it) => it !== undefined);
    let total = 0;
    let loaded = 0;
    for (const { size } of found) {
        total += size ?? NaN;
    }
    const tell = (bytes) => {
        loaded += bytes;
        checkSize(loaded);
        onProgress?.(Number.isNaN(total) ? { loaded } : { loaded, total });
    };
    try {
        checkSize(total);
        tell(0);
        const files = found.map(async ({ name, url, answer, size }) => {
            try {
                return [name, await content(answer, size, tell)];
            } catch (error) {
                if (signal?.aborted) {
                    throw error;
                }
                throw new Error(`downloading ${url}: ${error.message}`, { cause: error });
            }
        });
        return Object.fromEntries(await Promise.all(files));
    } catch (error) {
        await Promise.allSettled(found.map(({ answer }) => answer.body?.cancel()));
        throw error;
    }
}

/** How many bytes there will be, if the answer says it. It says how many are sent, which differs if they are packed. */
function sizeOf({ headers }) {
    const size = Number.parseInt(headers.get("content-length") ?? "", 10);
    return headers.has("content-encoding") || Number.isNaN(size) ? undefined : size;
}

async function content(answer, size, tell) {
    const chunks = [];
    let length = 0;
    // One buffer for all, where its size is known: half of the memory.
    const whole = size === undefined ? undefined : new Uint8Array(size);
    for (const reader = answer.body.getReader(); ; ) {
        const { done, value } = await reader.read();
        if (done) {
            break;
        }
        if (whole === undefined) {
            chunks.push(value);
        } else if (length + value.length <= size) {
            whole.set(value, length);
        }
        length += value.length;
        tell(value.length);
    }
    if (whole !== undefined) {
        if (length !== size) {
            throw new Error(`${length} bytes came, but ${size} were announced`);
        }
        return whole;
    }
    const joined = new Uint8Array(length);
    let at = 0;
    for (const chunk of chunks) {
        joined.set(chunk, at);
        at += chunk.length;
    }
    return joined;
}
