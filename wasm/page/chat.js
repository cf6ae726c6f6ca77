// A chat with a language model: its answer comes token by token, and can be stopped.

import { progressOf, tell } from "./main.js";
import { startWorker } from "./tract-openvino/worker.js";

export async function start(section) {
    const form = section.querySelector("form");
    const { question, send, stop } = form.elements;
    const list = section.querySelector(".messages");
    tell(section, "Loading the model …");
    const progress = progressOf(section);
    const { LanguageModel } = await startWorker();
    const model = await LanguageModel.fetch("models/chat", { onProgress: progress.onProgress });
    progress.done();
    tell(section, "");
    question.disabled = send.disabled = false;
    question.focus();

    const messages = [];
    const say = (role, content) => {
        const paragraph = document.createElement("p");
        paragraph.className = role;
        paragraph.textContent = content;
        list.append(paragraph);
        list.scrollTop = list.scrollHeight;
        return paragraph;
    };
    form.addEventListener("submit", async (event) => {
        event.preventDefault();
        const content = question.value.trim();
        if (content === "" || send.disabled) {
            return;
        }
        question.value = "";
        messages.push({ role: "user", content });
        say("user", content);
        const paragraph = say("assistant", "…");
        const controller = new AbortController();
        const abort = () => controller.abort();
        stop.addEventListener("click", abort);
        [send.disabled, send.hidden, stop.hidden] = [true, true, false];
        const started = performance.now();
        let [first, answer] = [undefined, ""];
        const generation = model.generate(messages, { maxNewTokens: 300, signal: controller.signal });
        try {
            tell(section, "Reading …");
            for await (const piece of generation) {
                first ??= performance.now();
                answer += piece;
                paragraph.textContent = answer;
                list.scrollTop = list.scrollHeight;
                tell(section, "Writing …");
            }
        } catch (error) {
            if (!controller.signal.aborted) {
                paragraph.remove();
                messages.pop();
                tell(section, error);
            }
        }
        stop.removeEventListener("click", abort);
        [send.disabled, send.hidden, stop.hidden] = [false, false, true];
        question.focus();
        if (generation.tokens !== undefined) {
            paragraph.textContent = answer;
            messages.push({ role: "assistant", content: answer });
            const now = performance.now();
            const rate = (generation.tokens.length - 1) / ((now - (first ?? now)) / 1000);
            const parts = [
                `${generation.promptTokens} tokens read in ${(((first ?? now) - started) / 1000).toFixed(1)} s`,
                `${generation.tokens.length} written`,
                ...(rate > 0 && Number.isFinite(rate) ? [`${rate.toFixed(1)} per second`] : []),
            ];
            tell(section, parts.join(", "));
        }
    });
}
