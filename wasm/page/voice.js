// Voice activity in a sound or at the microphone: the network runs step by step, and remembers what it heard.

import { get, progressOf, tell } from "./main.js";
import { startWorker, Tensor } from "./tract-openvino/worker.js";

const RATE = 16000;
/** The network hears 32 ms at a time, with the last 4 ms before them. */
const STEP = 512;
const BEFORE = 64;
const SECONDS = STEP / RATE;
/** How many steps of the microphone are shown: the last ten seconds. */
const SHOWN = 312;

export async function start(section) {
    tell(section, "Loading the network …");
    const progress = progressOf(section);
    const { Model } = await startWorker();
    const model = await Model.fetch("models/voice.xml", { onProgress: progress.onProgress });
    progress.done();
    let stop = () => undefined;
    /** One after the other: the last one is stopped first. */
    const instead = (run) => async (argument) => {
        stop();
        const controller = new AbortController();
        stop = () => controller.abort();
        try {
            await run(section, model, argument, controller.signal);
        } catch (error) {
            tell(section, error);
        }
    };
    const file = instead(async (section, model, blob) => hear(section, model, await decoded(blob)));
    const button = section.querySelector(".microphone");
    const microphone = instead(listen);
    section.querySelector("input").addEventListener("change", ({ target }) => target.files[0] && file(target.files[0]));
    button.addEventListener("click", async () => {
        if (button.ariaPressed === "true") {
            stop();
            return;
        }
        button.ariaPressed = "true";
        button.textContent = "Stop";
        await microphone();
        button.ariaPressed = "false";
        button.textContent = "Use the microphone";
    });
    await file(await (await get("models/speech.wav")).blob());
}

/** The samples of a sound, mono, at the rate of the network. */
async function decoded(blob) {
    const context = new OfflineAudioContext(1, 1, RATE);
    const sound = await context.decodeAudioData(await blob.arrayBuffer());
    const mixed = new Float32Array(sound.length);
    for (let channel = 0; channel < sound.numberOfChannels; channel += 1) {
        sound.getChannelData(channel).forEach((sample, at) => (mixed[at] += sample / sound.numberOfChannels));
    }
    return mixed;
}

/** A state of the model, which takes step after step and says how probable voice is there. */
async function listener(model) {
    const state = await model.state();
    const window = new Float32Array(BEFORE + STEP);
    return async (samples) => {
        window.copyWithin(0, STEP);
        window.set(samples, BEFORE);
        const { output } = await state.run({ input: new Tensor("f32", window, [1, BEFORE + STEP]) });
        return output.data[0];
    };
}

async function hear(section, model, samples) {
    const started = performance.now();
    const step = await listener(model);
    const voice = [];
    const steps = Math.floor(samples.length / STEP);
    for (let from = 0; from < steps; from += 64) {
        // The worker has the next ones while it runs one.
        const some = Array.from({ length: Math.min(64, steps - from) }, (_, number) => {
            const at = (from + number) * STEP;
            return step(samples.subarray(at, at + STEP));
        });
        voice.push(...(await Promise.all(some)));
        draw(section, samples, voice, samples.length);
    }
    const seconds = (performance.now() - started) / 1000;
    const length = samples.length / RATE;
    tell(section, `${length.toFixed(1)} s of sound in ${seconds.toFixed(2)} s`);
    const found = ranges(voice).map(([from, to]) => {
        const item = document.createElement("li");
        item.textContent = `voice from ${from.toFixed(2)} s to ${to.toFixed(2)} s`;
        return item;
    });
    section.querySelector(".ranges").replaceChildren(...found);
}

/** The seconds from and to which there is voice, but for breaks of a tenth of a second. */
function ranges(voice) {
    const ranges = [];
    for (const [step, probability] of voice.entries()) {
        if (probability > 0.5) {
            const [from, to] = [step * SECONDS, (step + 1) * SECONDS];
            const last = ranges.at(-1);
            if (last !== undefined && from - last[1] < 0.1) {
                last[1] = to;
            } else {
                ranges.push([from, to]);
            }
        }
    }
    return ranges;
}

/** Hears the microphone until the signal ends it. */
async function listen(section, model, _, signal) {
    section.querySelector(".ranges").replaceChildren();
    const stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
    const context = new AudioContext({ sampleRate: RATE });
    try {
        await context.audioWorklet.addModule("microphone.js");
        const step = await listener(model);
        const [samples, voice] = [new Float32Array(SHOWN * STEP), []];
        const node = new AudioWorkletNode(context, "steps", { processorOptions: { step: STEP } });
        context.createMediaStreamSource(stream).connect(node);
        let last = Promise.resolve();
        node.port.onmessage = ({ data }) => {
            last = last.then(async () => {
                if (signal.aborted) {
                    return;
                }
                const probability = await step(data);
                if (voice.length === SHOWN) {
                    voice.shift();
                    samples.copyWithin(0, STEP);
                }
                samples.set(data, voice.length * STEP);
                voice.push(probability);
                draw(section, samples, voice, samples.length);
                tell(section, probability > 0.5 ? "There is a voice." : "Nobody speaks.");
            });
        };
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        await last;
    } finally {
        stream.getTracks().forEach((track) => track.stop());
        await context.close();
    }
}

/** The waveform, and how probable voice is over it. */
function draw(section, samples, voice, length) {
    const canvas = section.querySelector(".plot");
    const { width, height } = canvas.getBoundingClientRect();
    const ratio = devicePixelRatio;
    if (width === 0) {
        return;
    }
    [canvas.width, canvas.height] = [width * ratio, height * ratio];
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    const heard = voice.length * STEP;
    const x = (sample) => (sample / length) * width;

    context.strokeStyle = getComputedStyle(section.querySelector(".note")).color;
    context.globalAlpha = 0.6;
    context.beginPath();
    const each = Math.max(Math.floor(length / width / 2), 1);
    for (let at = 0; at < heard; at += each) {
        let [low, high] = [0, 0];
        for (const sample of samples.subarray(at, at + each)) {
            [low, high] = [Math.min(low, sample), Math.max(high, sample)];
        }
        context.moveTo(x(at), height / 2 - (high * height) / 2);
        context.lineTo(x(at), height / 2 - (low * height) / 2 + 0.5);
    }
    context.stroke();

    context.strokeStyle = context.fillStyle = "#e0342b";
    context.lineWidth = 1.5;
    context.beginPath();
    voice.forEach((probability, step) => context.lineTo(x((step + 0.5) * STEP), 2 + (1 - probability) * (height - 4)));
    context.globalAlpha = 1;
    context.stroke();
    context.lineTo(x(heard), height);
    context.lineTo(0, height);
    context.globalAlpha = 0.12;
    context.fill();
}
