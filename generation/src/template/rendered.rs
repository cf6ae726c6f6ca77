//! Templates beside the texts of Jinja2, with the settings of transformers: `templates/generate.py` wrote them.

use std::collections::BTreeMap;
use std::path::Path;

use minijinja::Value;
use serde::Deserialize;
use tract_core::internal::*;

use super::ChatTemplate;

#[derive(Deserialize)]
struct Rendered {
    variables: BTreeMap<String, Value>,
    messages: Value,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    #[serde(default)]
    template: String,
    /// Or the file that has it.
    file: Option<String>,
    #[serde(default)]
    variables: BTreeMap<String, Value>,
    /// What Jinja2 makes of it, if it does not refuse it.
    text: Option<String>,
}

/// Templates that Jinja2 renders, and that are errors here.
const REFUSED: [&str; 37] = [
    "{{ '{:%}'.format(0.25) }}",
    "{{ s.swapcase() }}",
    "{{ '²'.isdigit() }}",
    "{{ '²'.isdecimal() }}",
    "{{ '½'.isdigit() }}",
    "{{ 'Hello World'.istitle() }}",
    "{{ 'a_1'.isidentifier() }}",
    "{{ 'a\\tb'.expandtabs(4) }}",
    "{{ 'ß'.casefold() }}",
    "{{ 'abc'.encode('utf-8') }}",
    "{{ s.translate({}) }}",
    "{{ s|wordcount }}",
    "{{ words|wordcount }}",
    "{{ s|center(21) ~ '|' }}",
    "{{ s|truncate(8) }}",
    "{{ s|truncate(8, true, '') }}",
    "{{ 'a b c d e f'|wordwrap(5) }}",
    "{{ '<b>x</b>  y'|striptags }}",
    "{{ s|urlencode }}",
    "{{ 'a b/ü?'|urlencode }}",
    "{{ s is callable }}",
    "{{ raise_exception is callable }}",
    "{{ dict([('a', 1)]) }}",
    "{{ range(3) }}",
    "{{ xs|pprint }}",
    "{{ xs|random is number }}",
    "{{ users|attr('nope') }}",
    "{{ cycler('a', 'b').next() }}",
    "{{ cycler('a', 'b', 'c').current }}",
    "{{ joiner(', ')() }}",
    "{% for x in xs %}{% if x %}{% continue %}{% endif %}{% else %}none{% endfor %}",
    "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}",
    "{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% macro f(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, 3) }}{{ f(1, k=2) }}",
    "{{ self }}",
    "{% for x in 1, 2 %}{{ x }}{% endfor %}",
    "{{ items }}{{ d.items is defined }}",
];

/// Templates that Jinja2 refuses, and that are not refused here.
const TAKEN: [&str; 4] = [
    "{{ 'a b c'|split }}",
    "{{ d.get('a', default=5) }}",
    "{% for x in nothing %}x{% endfor %}",
    "{{ 1 +}}",
];

#[test]
fn as_jinja2_renders_them() -> TractResult<()> {
    let folder = Path::new("templates");
    let rendered = std::fs::read_to_string(folder.join("rendered.json"))?;
    let rendered: Rendered = serde_json::from_str(&rendered)?;
    let (mut refused, mut taken, mut texts) = (vec![], vec![], 0);
    for case in rendered.cases {
        let template = match &case.file {
            Some(file) => std::fs::read_to_string(folder.join(file))?,
            None => case.template.clone(),
        };
        let mut variables = rendered.variables.clone();
        variables.insert("messages".into(), rendered.messages.clone());
        variables.insert("add_generation_prompt".into(), true.into());
        variables.extend(case.variables);
        let text = ChatTemplate::new(&template).and_then(|it| {
            variables.extend(
                it.variables
                    .into_iter()
                    .filter(|(name, _)| !variables.contains_key(name))
                    .collect::<Vec<_>>(),
            );
            Ok(it.program.render(Value::from(variables))?)
        });
        match (text, case.text) {
            (Ok(text), Some(expected)) => {
                assert_eq!(text, expected, "{} {}", case.template, case.file.unwrap_or_default());
                texts += 1;
            }
            (Err(_), None) => {}
            (Err(error), Some(_)) => {
                assert!(case.file.is_none(), "{:?}: {error:#}", case.file);
                refused.push(case.template);
            }
            (Ok(_), None) => taken.push(case.template),
        }
    }
    assert_eq!(refused, REFUSED);
    assert_eq!(taken, TAKEN);
    assert!(texts > 700, "{texts}");
    Ok(())
}
