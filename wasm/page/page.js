// What surrounds the two networks that read a page: from pixels to tensors, and from tensors to boxes and characters.

/** A picture of floats, `[3][height][width]`, as both networks take it: from -1 to 1. */
export function planes({ data, width, height }) {
    const size = width * height;
    const values = new Float32Array(3 * size);
    for (let pixel = 0; pixel < size; pixel += 1) {
        for (let channel = 0; channel < 3; channel += 1) {
            values[channel * size + pixel] = data[4 * pixel + channel] / 127.5 - 1;
        }
    }
    return { values, width, height };
}

/** The size at which text is found: multiples of 32, and 736 pixels or more, as in the pages that the network knows. */
export function readable(width, height) {
    const scale = Math.max(736 / Math.min(width, height), 1);
    const size = (it) => Math.max(Math.round((it * scale) / 32), 1) * 32;
    return { width: size(width), height: size(height) };
}

/** The boxes of lines of text where the scores, one for each pixel, are high: from top to bottom, and from left to right. */
export function boxes(scores, width, height) {
    const found = components(scores, width, height).map((points) => whole(smallestBox(hull(points))));
    const all = found.filter((box) => box !== undefined);
    const middle = (box) => (box[0].y + box[2].y) / 2;
    all.sort((a, b) => middle(a) - middle(b));
    const lines = [];
    let last;
    for (const box of all) {
        if (last === undefined || middle(last) >= box[3].y || middle(box) >= last[3].y) {
            lines.push([]);
        }
        lines.at(-1).push(box);
        last = box;
    }
    return lines.map((line) => line.sort((a, b) => a[0].x - b[0].x));
}

/** For each group of neighbouring pixels with a score above 0.3, the first and the last of each row. */
function components(scores, width, height) {
    const seen = new Uint8Array(scores.length);
    const groups = [];
    for (let start = 0; start < scores.length; start += 1) {
        if (seen[start] || scores[start] <= 0.3) {
            continue;
        }
        const rows = new Map();
        const waiting = [start];
        seen[start] = 1;
        while (waiting.length > 0) {
            const at = waiting.pop();
            const [x, y] = [at % width, Math.floor(at / width)];
            const row = rows.get(y) ?? { from: x, to: x };
            rows.set(y, { from: Math.min(row.from, x), to: Math.max(row.to, x) });
            for (let ny = Math.max(y - 1, 0); ny <= Math.min(y + 1, height - 1); ny += 1) {
                for (let nx = Math.max(x - 1, 0); nx <= Math.min(x + 1, width - 1); nx += 1) {
                    const next = ny * width + nx;
                    if (!seen[next] && scores[next] > 0.3) {
                        seen[next] = 1;
                        waiting.push(next);
                    }
                }
            }
        }
        groups.push([...rows].flatMap(([y, { from, to }]) => [{ x: from, y }, { x: to, y }]));
    }
    return groups;
}

/** The convex hull of points, counterclockwise where y points up. */
function hull(points) {
    const sorted = points.toSorted((a, b) => a.x - b.x || a.y - b.y);
    const half = (points) => {
        const chain = [];
        for (const point of points) {
            while (chain.length > 1 && turn(chain.at(-2), chain.at(-1), point) <= 0) {
                chain.pop();
            }
            chain.push(point);
        }
        return chain.slice(0, -1);
    };
    return [...half(sorted), ...half(sorted.toReversed())];
}

const turn = (a, b, c) => (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);

/** The smallest box around a hull, which has a side along one of the hull's. */
function smallestBox(points) {
    let best;
    for (const [number, from] of points.entries()) {
        const to = points[(number + 1) % points.length];
        const length = Math.hypot(to.x - from.x, to.y - from.y);
        if (length === 0) {
            continue;
        }
        const [ux, uy] = [(to.x - from.x) / length, (to.y - from.y) / length];
        const along = points.map(({ x, y }) => x * ux + y * uy);
        const across = points.map(({ x, y }) => y * ux - x * uy);
        const [a0, a1] = [Math.min(...along), Math.max(...along)];
        const [c0, c1] = [Math.min(...across), Math.max(...across)];
        const area = (a1 - a0) * (c1 - c0);
        if (best === undefined || area < best.area) {
            const corner = (a, c) => ({ x: a * ux - c * uy, y: a * uy + c * ux });
            best = { area, corners: [corner(a0, c0), corner(a1, c0), corner(a1, c1), corner(a0, c1)] };
        }
    }
    return best?.corners;
}

/**
 * The box of whole letters: top left, top right, bottom right, bottom left. The network finds their cores, and specks, which are
 * none.
 */
function whole(core) {
    if (core === undefined) {
        return undefined;
    }
    const byX = core.toSorted((a, b) => a.x - b.x);
    const [topLeft, bottomLeft] = byX.slice(0, 2).sort((a, b) => a.y - b.y);
    const [topRight, bottomRight] = byX.slice(2).sort((a, b) => a.y - b.y);
    const along = minus(topRight, topLeft);
    const down = minus(bottomLeft, topLeft);
    const [width, height] = [along, down].map(({ x, y }) => Math.hypot(x, y));
    if (Math.min(width, height) <= 3) {
        return undefined;
    }
    const by = (0.8 * width * height) / (width + height);
    const moved = (corner, right, below) => {
        const [a, d] = [(right * by) / width, (below * by) / height];
        return { x: corner.x + along.x * a + down.x * d, y: corner.y + along.y * a + down.y * d };
    };
    return [moved(topLeft, -1, -1), moved(topRight, 1, -1), moved(bottomRight, 1, 1), moved(bottomLeft, -1, 1)];
}

const minus = (a, b) => ({ x: a.x - b.x, y: a.y - b.y });

/** The picture within a box, 48 pixels high, which the network that reads takes at any width. White is around the page. */
export function cut({ values, width, height }, [topLeft, topRight, , bottomLeft]) {
    const [along, down] = [minus(topRight, topLeft), minus(bottomLeft, topLeft)];
    const exact = (48 * Math.hypot(along.x, along.y)) / Math.hypot(down.x, down.y);
    const columns = Math.max(Math.ceil(exact), 1);
    const line = new Float32Array(3 * 48 * columns);
    for (let row = 0; row < 48; row += 1) {
        for (let column = 0; column < columns; column += 1) {
            const [a, d] = [column / columns, row / 48];
            const x = topLeft.x + along.x * a + down.x * d;
            const y = topLeft.y + along.y * a + down.y * d;
            const [left, top] = [Math.floor(x), Math.floor(y)];
            const [fx, fy] = [x - left, y - top];
            const isInside = left >= 0 && top >= 0 && left + 1 < width && top + 1 < height;
            for (let channel = 0; channel < 3; channel += 1) {
                const at = channel * width * height + top * width + left;
                const value = isInside
                    ? (values[at] * (1 - fx) + values[at + 1] * fx) * (1 - fy) +
                      (values[at + width] * (1 - fx) + values[at + width + 1] * fx) * fy
                    : 1;
                line[(channel * 48 + row) * columns + column] = value;
            }
        }
    }
    return { values: line, width: columns, height: 48 };
}

/** The characters that are the most probable. A class that goes on is the same character, and class 0 is none. */
export function text({ data, shape: [, steps, classes] }, characters) {
    let text = "";
    let last = 0;
    for (let step = 0; step < steps; step += 1) {
        let best = 0;
        for (let number = 1; number < classes; number += 1) {
            if (data[step * classes + number] > data[step * classes + best]) {
                best = number;
            }
        }
        if (best !== last && best > 0) {
            text += characters[best - 1] ?? "";
        }
        last = best;
    }
    return text;
}
