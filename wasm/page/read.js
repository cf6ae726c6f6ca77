// The text of a page: one network finds lines, and another one reads them.

import { get, progressOf, tell } from "./main.js";
import { boxes, cut, planes, readable, text } from "./page.js";
import { startWorker, Tensor } from "./tract-openvino/worker.js";

export async function start(section) {
    tell(section, "Loading the networks …");
    const progress = progressOf(section);
    const [picture, networks] = await Promise.all([
        get("models/page.png").then((answer) => answer.blob()).then(createImageBitmap),
        load(progress.onProgress),
    ]);
    progress.done();
    let reading = read(section, networks, picture);
    const choose = async (file) => {
        // One after the other.
        await reading.catch(() => undefined);
        reading = createImageBitmap(file).then((picture) => read(section, networks, picture));
        await reading.catch((error) => tell(section, error));
    };
    section.querySelector("input").addEventListener("change", ({ target }) => target.files[0] && choose(target.files[0]));
    section.addEventListener("dragover", (event) => {
        event.preventDefault();
        section.classList.add("drop");
    });
    section.addEventListener("dragleave", () => section.classList.remove("drop"));
    section.addEventListener("drop", (event) => {
        event.preventDefault();
        section.classList.remove("drop");
        choose(event.dataTransfer.files[0]);
    });
    document.addEventListener("paste", ({ clipboardData }) => {
        if (!section.hidden && clipboardData.files.length > 0) {
            choose(clipboardData.files[0]);
        }
    });
    await reading;
}

async function load(onProgress) {
    const { Model } = await startWorker();
    const parts = [{ loaded: 0, total: 0 }, { loaded: 0, total: 0 }];
    const tellOf = (part) => (told) => {
        parts[part] = told;
        const sum = (field) => parts[0][field] + parts[1][field];
        onProgress({ loaded: sum("loaded"), total: sum("total") || undefined });
    };
    const [find, reader, characters] = await Promise.all([
        Model.fetch("models/find_text.xml", { onProgress: tellOf(0) }),
        Model.fetch("models/read_text.xml", { onProgress: tellOf(1) }),
        get("models/characters.txt").then((answer) => answer.text()),
    ]);
    return { find, reader, characters: [...characters.split("\n"), " "] };
}

async function read(section, { find, reader, characters }, picture) {
    const started = performance.now();
    const canvas = section.querySelector("canvas");
    const context = canvas.getContext("2d");
    [canvas.width, canvas.height] = [picture.width, picture.height];
    context.drawImage(picture, 0, 0);
    const output = section.querySelector(".text");
    output.textContent = "";
    tell(section, "Looking for text …");

    const page = planes(scaled(picture));
    const scores = await run(find, page);
    const lines = boxes(scores.data, page.width, page.height);
    const scale = { x: picture.width / page.width, y: picture.height / page.height };
    context.lineWidth = Math.max(1, picture.width / 400);
    context.strokeStyle = "#e0342b";
    for (const corners of lines.flat()) {
        context.beginPath();
        corners.forEach(({ x, y }) => context.lineTo(x * scale.x, y * scale.y));
        context.closePath();
        context.stroke();
    }
    tell(section, "Reading …");
    for (const [number, line] of lines.entries()) {
        const texts = [];
        for (const box of line) {
            texts.push(text(await run(reader, cut(page, box)), characters));
        }
        output.textContent += `${number === 0 ? "" : "\n"}${texts.join(" ")}`;
        if (number === 0) {
            performance.mark("first text");
        }
    }
    const seconds = ((performance.now() - started) / 1000).toFixed(1);
    tell(section, lines.length === 0 ? "There is no text." : `${lines.length} lines in ${seconds} s`);
    performance.mark("page read");
}

/** The pixels of the picture, in a size in which text is found. */
function scaled(picture) {
    const { width, height } = readable(picture.width, picture.height);
    const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
    context.imageSmoothingQuality = "high";
    context.drawImage(picture, 0, 0, width, height);
    return context.getImageData(0, 0, width, height);
}

/** The only output of a network for a picture. */
async function run(network, { values, width, height }) {
    const [{ name }] = network.inputs;
    const outputs = await network.run({ [name]: new Tensor("f32", values, [1, 3, height, width]) });
    return outputs[network.outputs[0].name];
}
