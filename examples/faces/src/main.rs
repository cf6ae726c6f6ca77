//! Draws boxes around the faces in an image.

use anyhow::{Context, Result};
use imageproc::{drawing::draw_hollow_rect_mut, rect::Rect};
use tract_openvino_ir::prelude::*;
use tract_openvino_ir::preprocess::{Preprocess, ResizeAlgorithm};

struct Face {
    score: f32,
    place: Rect,
}

fn main() -> Result<()> {
    use_all_cores()?;
    let mut arguments = std::env::args().skip(1);
    let input = arguments.next().unwrap_or("target/examples/astronaut.png".into());
    let output = arguments.next().unwrap_or("faces.jpg".into());

    let mut picture = image::open(&input).with_context(|| format!("reading {input}"))?.into_rgb8();
    for Face { score, place } in faces(&picture)? {
        let (x, y, width, height) = (place.left(), place.top(), place.width(), place.height());
        println!("a face at {x}, {y} of {width} x {height} pixels: {score:.3}");
        for line in 0..3 {
            let size = (place.width() + 2 * line, place.height() + 2 * line);
            let place = Rect::at(x - line as i32, y - line as i32).of_size(size.0, size.1);
            draw_hollow_rect_mut(&mut picture, place, image::Rgb([255, 220, 0]));
        }
    }
    picture.save(&output).with_context(|| format!("writing {output}"))
}

fn faces(picture: &image::RgbImage) -> Result<Vec<Face>> {
    // The network takes pictures of any size that is a multiple of 32.
    let [height, width] = [picture.height(), picture.width()].map(|it| it as usize);
    let shape = [1, 3, height.next_multiple_of(32), width.next_multiple_of(32)];
    let reader = ir().with_input_shape("input.1", shape);
    let mut preprocess = Preprocess::new(reader.model_for_path("target/examples/faces.xml")?);
    let input = preprocess.input("input.1")?;
    input.tensor().set_element_type(DatumType::U8).set_layout("NHWC".parse()?);
    input.tensor().set_spatial_shape(height, width)?;
    input.steps().resize(ResizeAlgorithm::BilinearPillow);
    input.model().set_layout("NCHW".parse()?);
    let model = preprocess.build()?.into_runnable_with_kernels()?;
    let image = Tensor::from_shape(&[1, height, width, 3], picture.as_raw())?;
    let outputs = model.run(tvec!(image.into()))?;
    let [scores, sizes, centers] =
        [0, 1, 2].map(|output| outputs[output].to_plain_array_view::<f32>());
    let (scores, sizes, centers) = (scores?, sizes?, centers?);

    // A score for each 4 x 4 pixels, and beside it the size of a face there and how far off its center is.
    let mut faces = vec![];
    for y in 0..shape[2] / 4 {
        for x in 0..shape[3] / 4 {
            let score = scores[[0, 0, y, x]];
            if score > 0.5 {
                let [height, width] = [0, 1].map(|side| sizes[[0, side, y, x]].exp() * 4.);
                let bottom = (y as f32 + 0.5 + centers[[0, 0, y, x]]) * 4. - height / 2.;
                let left = (x as f32 + 0.5 + centers[[0, 1, y, x]]) * 4. - width / 2.;
                let place = Rect::at(left.round() as i32, bottom.round() as i32);
                faces.push(Face { score, place: place.of_size(width as u32, height as u32) });
            }
        }
    }
    Ok(without_doubles(faces))
}

/// The faces with the highest scores, of those that lie on one another.
fn without_doubles(mut faces: Vec<Face>) -> Vec<Face> {
    faces.sort_by(|a, b| b.score.total_cmp(&a.score));
    let area = |place: Rect| place.width() as f32 * place.height() as f32;
    let overlap = |a: Rect, b: Rect| {
        let common = a.intersect(b).map_or(0., area);
        common / (area(a) + area(b) - common)
    };
    let mut kept: Vec<Face> = vec![];
    for face in faces {
        if kept.iter().all(|other| overlap(face.place, other.place) < 0.3) {
            kept.push(face);
        }
    }
    kept
}
