// Runs where the sound comes from: puts it together to steps of the network.

class Steps extends AudioWorkletProcessor {
    constructor({ processorOptions: { step } }) {
        super();
        this.samples = new Float32Array(step);
        this.count = 0;
    }

    process([[channel]]) {
        // 128 samples, of which a step has a multiple.
        if (channel !== undefined) {
            this.samples.set(channel, this.count);
            this.count += channel.length;
            if (this.count === this.samples.length) {
                this.port.postMessage(this.samples.slice());
                this.count = 0;
            }
        }
        return true;
    }
}

registerProcessor("steps", Steps);
