//! Prints the text of a page, line by line, and draws boxes around it.

use anyhow::{Context, Result};
use image::imageops::{FilterType, resize};
use image::{GrayImage, Luma, Rgb, RgbImage};
use imageproc::contours::{BorderType, find_contours};
use imageproc::geometric_transformations::{Interpolation, Projection, warp_into};
use imageproc::{drawing::draw_hollow_polygon_mut, geometry::min_area_rect, point::Point};
use tract_openvino_ir::prelude::*;

/// Top left, top right, bottom right, bottom left.
type Corners = [Point<f32>; 4];

fn main() -> Result<()> {
    use_all_cores()?;
    let mut arguments = std::env::args().skip(1);
    let input = arguments.next().unwrap_or("target/examples/page.png".into());
    let output = arguments.next().unwrap_or("page.png".into());

    let mut picture = image::open(&input).with_context(|| format!("reading {input}"))?.into_rgb8();
    let (width, height) = picture.dimensions();
    // The network that finds text takes multiples of 32, and knows pages of 736 pixels or more.
    let scale = (736. / width.min(height) as f32).max(1.);
    let size = |it: u32| ((it as f32 * scale / 32.).round() as u32).max(1) * 32;
    let page = resize(&picture, size(width), size(height), FilterType::Triangle);

    let model =
        ir().model_for_path("target/examples/read_text.xml")?.into_runnable_with_kernels()?;
    let characters = "target/examples/characters.txt";
    let characters =
        std::fs::read_to_string(characters).with_context(|| format!("reading {characters}"))?;
    let characters: Vec<&str> = characters.split('\n').chain([" "]).collect();
    let read = |corners| -> Result<String> {
        let outputs = model.run(tvec!(pixels(&cut(&page, corners)?).into()))?;
        text(&outputs[0], &characters)
    };
    // From top to bottom, and from left to right what is beside one another.
    let mut boxes = find_text(&page)?;
    let middle = |it: &Corners| (it[0].y + it[2].y) / 2.;
    boxes.sort_by(|a, b| middle(a).total_cmp(&middle(b)));
    for line in boxes.chunk_by_mut(|above, it| middle(it) < above[3].y) {
        line.sort_by(|a, b| a[0].x.total_cmp(&b[0].x));
        println!("{}", line.iter().map(read).collect::<Result<Vec<_>>>()?.join(" "));
    }
    let scale = [width as f32 / page.width() as f32, height as f32 / page.height() as f32];
    for corners in boxes {
        let corners = corners.map(|it| Point::new(it.x * scale[0], it.y * scale[1]));
        draw_hollow_polygon_mut(&mut picture, &corners, Rgb([255, 0, 0]));
    }
    picture.save(&output).with_context(|| format!("writing {output}"))
}

fn find_text(page: &RgbImage) -> TractResult<Vec<Corners>> {
    let reader = ir().with_input_shape("x", [1, 3, page.height() as usize, page.width() as usize]);
    let model =
        reader.model_for_path("target/examples/find_text.xml")?.into_runnable_with_kernels()?;
    let outputs = model.run(tvec!(pixels(page).into()))?;
    let scores = outputs[0].to_plain_array_view::<f32>()?;
    let is_text = |x, y| Luma([if scores[[0, 0, y as usize, x as usize]] > 0.3 { 255 } else { 0 }]);
    let contours = find_contours::<i32>(&GrayImage::from_fn(page.width(), page.height(), is_text));
    let outer = contours.iter().filter(|it| it.border_type == BorderType::Outer);
    Ok(outer.filter_map(|it| whole(min_area_rect(&it.points))).collect())
}

/// The box of whole letters. The network finds their cores, and specks, which are none.
fn whole(core: [Point<i32>; 4]) -> Option<Corners> {
    let core = core.map(|it| Point::new(it.x as f32, it.y as f32));
    let [along, down] = [1, 3].map(|it| core[it] - core[0]);
    let [width, height] = [along, down].map(|it| it.x.hypot(it.y));
    let by = 0.8 * width * height / (width + height);
    let signs = [(-by, -by), (by, -by), (by, by), (-by, by)].map(|(x, y)| (x / width, y / height));
    let moved = |(x, y)| Point::new(along.x * x + down.x * y, along.y * x + down.y * y);
    (width.min(height) > 3.).then(|| std::array::from_fn(|it| core[it] + moved(signs[it])))
}

/// The image within a box, 48 pixels high, which the model that reads text takes at any width.
fn cut(page: &RgbImage, corners: &Corners) -> Result<RgbImage> {
    let [along, down] = [1, 3].map(|it| corners[it] - corners[0]).map(|it| it.x.hypot(it.y));
    let width = (48. * along / down).ceil();
    let to = [(0., 0.), (width, 0.), (width, 48.), (0., 48.)];
    let projection = Projection::from_control_points(corners.map(|it| (it.x, it.y)), to)
        .context("a flat box")?;
    let mut line = RgbImage::new(width as u32, 48);
    warp_into(page, &projection, Interpolation::Bilinear, Rgb([255; 3]), &mut line);
    Ok(line)
}

/// The characters that are the most probable. A class that goes on is the same character, and class 0 is none.
fn text(probabilities: &Tensor, characters: &[&str]) -> TractResult<String> {
    let steps = probabilities.to_plain_array_view::<f32>()?;
    let classes = steps.lanes(tract_ndarray::Axis(2)).into_iter().map(|step| {
        step.iter()
            .enumerate()
            .fold((0, 0.), |best, (class, it)| if *it > best.1 { (class, *it) } else { best })
            .0
    });
    let mut classes: Vec<usize> = classes.collect();
    classes.dedup();
    Ok(classes.iter().filter_map(|class| characters.get(class.checked_sub(1)?)).copied().collect())
}

/// The image as both models take it.
fn pixels(picture: &RgbImage) -> Tensor {
    let shape = (1, 3, picture.height() as usize, picture.width() as usize);
    let value = |(_, channel, y, x)| f32::from(picture[(x as u32, y as u32)][channel]) / 127.5 - 1.;
    tract_ndarray::Array4::from_shape_fn(shape, value).into_tensor()
}
