//! Draws where there is speech in a WAV file.

use anyhow::{Context, Result, ensure};
use plotters::prelude::*;
use tract_openvino_ir::prelude::*;

const RATE: u32 = 16000;
/// The network hears 32 ms at a time, with the last 4 ms before them.
const STEP: usize = 512;
const BEFORE: usize = 64;
const SECONDS: f32 = STEP as f32 / RATE as f32;

fn main() -> Result<()> {
    use_all_cores()?;
    let mut arguments = std::env::args().skip(1);
    let sound = arguments.next().unwrap_or("examples/voice/speech.wav".into());
    let plot = arguments.next().unwrap_or("voice.svg".into());

    let samples = read(&sound).with_context(|| format!("reading {sound}"))?;
    let voice = probabilities(&samples)?;
    for (from, to) in ranges(&voice) {
        println!("voice from {from:.2} s to {to:.2} s");
    }
    draw(&samples, &voice, &plot).with_context(|| format!("writing {plot}"))
}

fn read(path: &str) -> Result<Vec<f32>> {
    let mut wav = hound::WavReader::open(path)?;
    let hound::WavSpec { channels, sample_rate, bits_per_sample, sample_format } = wav.spec();
    ensure!(
        (channels, sample_rate, bits_per_sample) == (1, RATE, 16)
            && sample_format == hound::SampleFormat::Int,
        "this has {channels} channels of {bits_per_sample} bits at {sample_rate} Hz, but must have one of 16 bits at {RATE} Hz"
    );
    Ok(wav
        .samples::<i16>()
        .map(|it| it.map(|it| f32::from(it) / 32768.))
        .collect::<Result<_, _>>()?)
}

/// How probable voice is, for each step.
fn probabilities(samples: &[f32]) -> Result<Vec<f32>> {
    let model = ir().model_for_path("ir/models/networks/silero_stateful/model.xml")?;
    // The network remembers what it heard.
    let mut state = model.into_runnable_with_kernels()?.spawn()?;
    let samples = [&[0.; BEFORE], samples].concat();
    let windows = samples.windows(BEFORE + STEP).step_by(STEP);
    let probability = |window| -> Result<f32> {
        let input = tensor1(window).into_shape(&[1, BEFORE + STEP])?;
        state.run(tvec!(input.into()))?[0].cast_to_scalar()
    };
    windows.map(probability).collect()
}

/// The seconds from and to which there is voice, but for breaks of a tenth of a second.
fn ranges(voice: &[f32]) -> Vec<(f32, f32)> {
    let mut ranges: Vec<(f32, f32)> = vec![];
    for step in (0..voice.len()).filter(|step| voice[*step] > 0.5) {
        let (from, to) = (step as f32 * SECONDS, (step + 1) as f32 * SECONDS);
        match ranges.last_mut() {
            Some(last) if from - last.1 < 0.1 => last.1 = to,
            _ => ranges.push((from, to)),
        }
    }
    ranges
}

fn draw(samples: &[f32], voice: &[f32], path: &str) -> Result<()> {
    let area = SVGBackend::new(path, (900, 300)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(50)
        .build_cartesian_2d(0f32..samples.len() as f32 / RATE as f32, 0f32..1f32)?;
    chart
        .configure_mesh()
        .max_light_lines(1)
        .x_desc("seconds")
        .y_desc("probability of voice")
        .draw()?;
    // The highest and the lowest sample of each 4 ms, around the middle of the plot.
    let wave = samples.chunks(BEFORE).enumerate().flat_map(|(number, chunk)| {
        let time = (number * BEFORE) as f32 / RATE as f32;
        [f32::min, f32::max].map(|of| (time, 0.5 + chunk.iter().copied().fold(0., of) / 2.))
    });
    chart.draw_series(LineSeries::new(wave, RGBColor(150, 170, 190)))?;
    let steps = voice.iter().enumerate().map(|(step, it)| (step as f32 * SECONDS, *it));
    chart.draw_series(AreaSeries::new(steps, 0., RED.mix(0.15)).border_style(RED))?;
    area.present()?;
    Ok(())
}
