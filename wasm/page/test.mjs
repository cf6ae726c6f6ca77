// Uses the page in Chromium as a person would, and writes pictures of it.

import assert from "node:assert/strict";
import { createReadStream, existsSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

import puppeteer from "puppeteer-core";

const [page, pictures, ...chosen] = process.argv.slice(2);
const repository = join(dirname(fileURLToPath(import.meta.url)), "../..");

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm", ".png": "image/png" };

/** A server of static files. */
const server = createServer(({ url }, answer) => {
    const file = join(page, normalize(new URL(url, "http://localhost").pathname).replace(/\/$/, "/index.html"));
    if (!file.startsWith(page) || !existsSync(file)) {
        answer.writeHead(404).end();
        return;
    }
    const headers = { "content-type": TYPES[extname(file)] ?? "application/octet-stream", "content-length": statSync(file).size };
    createReadStream(file).pipe(answer.writeHead(200, headers));
});
await new Promise((resolve) => server.listen(0, "localhost", resolve));

const browser = await puppeteer.launch({
    executablePath: process.env.CHROMIUM,
    protocolTimeout: 600_000,
    args: [
        "--no-sandbox",
        "--use-fake-ui-for-media-stream",
        "--use-fake-device-for-media-stream",
        `--use-file-for-fake-audio-capture=${join(repository, "examples/voice/speech.wav")}`,
    ],
});

/** Opens a section, in a tab of its own, and fails at errors that nobody has caught. */
async function open(section, viewport = { width: 1100, height: 860 }) {
    const tab = await browser.newPage();
    await tab.setViewport({ ...viewport, deviceScaleFactor: 1 });
    tab.on("pageerror", (error) => assert.fail(`an error in the page: ${error.message}`));
    tab.on("console", (message) => message.type() === "error" && console.error(`the page says: ${message.text()}`));
    await tab.goto(`http://localhost:${server.address().port}/#${section}`);
    return tab;
}

const status = (tab, section) => tab.$eval(`#${section} .status`, (it) => it.textContent);

/** Waits until the status of a section is like that, and says what it is if it does not become so. */
async function becomes(tab, section, pattern, seconds = 300) {
    try {
        const isLike = (section, pattern) => {
            const output = document.querySelector(`#${section} .status`);
            if (output.classList.contains("error")) {
                throw new Error(output.textContent);
            }
            return new RegExp(pattern).test(output.textContent);
        };
        await tab.waitForFunction(isLike, { timeout: seconds * 1000 }, section, pattern.source);
    } catch (error) {
        throw new Error(`the status of ${section} is ${JSON.stringify(await status(tab, section))}`, { cause: error });
    }
    return status(tab, section);
}

const picture = (tab, name) => tab.screenshot({ path: join(pictures, `${name}.png`) });

async function read() {
    const tab = await open("read");
    const told = await becomes(tab, "read", /lines in/);
    const first = await tab.evaluate(() => performance.getEntriesByName("first text")[0].startTime / 1000);
    const text = await tab.$eval("#read .text", (it) => it.textContent);
    // What the example in Rust reads there, but for spaces, of which the network leaves out some.
    const letters = (text) => text.replaceAll(/\s/g, "");
    const example = readFileSync(join(repository, "examples/README.md"), "utf8");
    const [, expected] = /-p read-page\n```\n\n```text\n(.*?)```/s.exec(example);
    assert.equal(letters(text), letters(expected));
    await picture(tab, "read");
    // Another picture: the one that the page shows now, with boxes.
    const input = await tab.$("#read input");
    await input.uploadFile(join(page, "models/page.png"));
    await tab.waitForFunction(() => document.querySelector("#read .text").textContent === "");
    await becomes(tab, "read", /lines in/);
    await tab.close();
    console.log(`read: the first text after ${first.toFixed(2)} s, ${told}`);
}

async function voice() {
    const tab = await open("voice");
    const told = await becomes(tab, "voice", /s of sound in/);
    const ranges = await tab.$$eval("#voice li", (all) => all.map((it) => it.textContent));
    assert.deepEqual(ranges, ["voice from 0.32 s to 2.02 s", "voice from 3.42 s to 4.83 s"]);
    await picture(tab, "voice");
    await tab.click("#voice .microphone");
    await becomes(tab, "voice", /There is a voice/);
    await becomes(tab, "voice", /Nobody speaks/);
    await picture(tab, "microphone");
    await tab.click("#voice .microphone");
    await tab.waitForFunction(() => document.querySelector("#voice .microphone").ariaPressed === "false");
    await tab.close();
    console.log(`voice: ${told}; the microphone`);
}

async function chat() {
    const begin = async () => {
        const tab = await open("chat");
        await tab.waitForSelector("#chat input:enabled", { timeout: 300_000 });
        return tab;
    };
    const ask = async (tab, question) => {
        await tab.type("#chat input", question);
        await tab.keyboard.press("Enter");
    };
    const answers = (tab) => tab.$$eval("#chat .assistant", (all) => all.map((it) => it.textContent));
    const other = await begin();
    await ask(other, "Tell a story.");
    await becomes(other, "chat", /Writing/);
    // The page is alive while the model writes, and can stop it.
    await other.click("#chat [name=stop]");
    await becomes(other, "chat", /tokens read/);
    await other.close();
    const tab = await begin();
    await ask(tab, "What is the capital of France?");
    const told = await becomes(tab, "chat", /tokens read/);
    const [answer] = await answers(tab);
    assert.notEqual(answer, "…");
    await picture(tab, "chat");
    await tab.close();
    console.log(`chat: ${JSON.stringify(answer.slice(0, 80))}; ${told}`);
}

async function dark() {
    const tab = await open("read", { width: 420, height: 900 });
    await tab.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
    await becomes(tab, "read", /lines in/);
    await picture(tab, "dark");
    await tab.close();
}

const sections = { read, voice, chat, dark };
try {
    for (const name of chosen.length > 0 ? chosen : Object.keys(sections)) {
        await sections[name]();
    }
} finally {
    await browser.close();
    server.close();
}
