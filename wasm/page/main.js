// The tabs. A section starts when it is first seen, with a worker of its own.

const SECTIONS = {
    read: () => import("./read.js"),
    voice: () => import("./voice.js"),
    chat: () => import("./chat.js"),
};
const started = new Set();

function show(name) {
    for (const section of document.querySelectorAll("section")) {
        section.hidden = section.id !== name;
    }
    for (const tab of document.querySelectorAll("[role=tab]")) {
        tab.ariaSelected = String(tab.getAttribute("aria-controls") === name);
    }
    if (!started.has(name)) {
        started.add(name);
        start(document.getElementById(name), SECTIONS[name]);
    }
}

async function start(section, load) {
    try {
        await (await load()).start(section);
    } catch (error) {
        tell(section, error);
    }
}

/** Shows what a section does, or what went wrong there. */
export function tell(section, status) {
    const output = section.querySelector(".status");
    const isError = status instanceof Error;
    output.classList.toggle("error", isError);
    output.textContent = isError ? status.message : status;
}

/** Shows how much has been downloaded; nothing, once all is there. */
export function progressOf(section) {
    const bar = section.querySelector("progress");
    return {
        onProgress: ({ loaded, total }) => {
            bar.hidden = false;
            if (total === undefined) {
                bar.removeAttribute("value");
            } else {
                [bar.max, bar.value] = [total, loaded];
            }
        },
        done: () => (bar.hidden = true),
    };
}

/** What a file or an answer has, or an error that says which one it was. */
export async function get(url) {
    const answer = await fetch(url);
    if (!answer.ok) {
        throw new Error(`${url}: ${answer.status} ${answer.statusText}`);
    }
    return answer;
}

for (const tab of document.querySelectorAll("[role=tab]")) {
    const name = tab.getAttribute("aria-controls");
    tab.addEventListener("click", () => {
        history.replaceState(null, "", `#${name}`);
        show(name);
    });
}
show(location.hash.slice(1) in SECTIONS ? location.hash.slice(1) : "read");
