//! Chat templates: the messages of a chat as one text.

mod arguments;
mod filters;
mod format;
mod json;
mod methods;
mod operators;
mod program;
#[cfg(test)]
mod rendered;
mod values;

use std::collections::BTreeMap;
use std::path::Path;

use jiff::fmt::strtime;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};
use minijinja::{Error, ErrorKind, Value};
use serde::{Deserialize, Serialize};
use tract_core::internal::*;

use crate::files::Files;
use crate::system;
use crate::tokenizer::special_tokens;
use program::Program;

/// A message of a chat.
///
/// ```
/// use tract_openvino_generation::Message;
///
/// let messages = [Message::system("Answer in one word."), Message::user("What is the capital of France?")];
/// assert_eq!(messages[1].role, "user");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Message {
    /// Who says it: `system`, `user` or `assistant`, or what else the template knows.
    pub role: String,
    /// The text.
    pub content: String,
}

impl Message {
    /// A message of any role.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: content.into() }
    }

    /// What the model is told before the chat.
    pub fn system(content: impl Into<String>) -> Message {
        Message::new("system", content)
    }

    /// What the user says.
    pub fn user(content: impl Into<String>) -> Message {
        Message::new("user", content)
    }

    /// What the model says.
    pub fn assistant(content: impl Into<String>) -> Message {
        Message::new("assistant", content)
    }
}

/// The template of a model, in the language Jinja: `chat_template.jinja`, or `chat_template` in `tokenizer_config.json`.
///
/// It sees `messages`, `add_generation_prompt` and the special tokens, and has the functions `raise_exception` and `strftime_now` and
/// the filter `tojson` as transformers defines them. Operators, methods and the texts of values are those of Python; what would give
/// another text than there is an error, and the README of this crate lists it. `tools` and `documents` are none, unless
/// [`with_variable`](Self::with_variable) sets them.
///
/// ```
/// use tract_openvino_generation::{ChatTemplate, Message};
///
/// let template = ChatTemplate::new(
///     "{{ bos_token }}{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}\
///      {% if add_generation_prompt %}<assistant>{% endif %}",
/// )?;
/// let template = template.with_variable("bos_token", "<s>");
/// assert_eq!(template.render(&[Message::user("Hi!")], true)?, "<s><user>Hi!<assistant>");
/// # tract_openvino_generation::prelude::TractResult::Ok(())
/// ```
#[derive(Debug, Clone)]
pub struct ChatTemplate {
    program: Program,
    variables: BTreeMap<String, Value>,
}

impl ChatTemplate {
    /// A template from its text, without special tokens.
    ///
    /// # Errors
    ///
    /// The text is no template.
    pub fn new(text: &str) -> TractResult<ChatTemplate> {
        let program = Program::new(text, |environment| {
            environment.add_function("raise_exception", raise_exception);
            environment.add_function("strftime_now", strftime_now);
        });
        let none = |name: &str| (name.to_string(), Value::from(()));
        let variables = ["tools", "documents"].map(none).into();
        Ok(ChatTemplate { program: program.context("reading a chat template")?, variables })
    }

    /// The template of a folder, with its special tokens, or `None` if it has none.
    ///
    /// # Errors
    ///
    /// A file cannot be read, has no template in it, or has several of which none is the default.
    pub fn from_folder(folder: impl AsRef<Path>) -> TractResult<Option<ChatTemplate>> {
        ChatTemplate::from_files(&Files::folder(folder.as_ref()))
    }

    /// The template of a model's files.
    pub(crate) fn from_files(files: &Files) -> TractResult<Option<ChatTemplate>> {
        const SETTINGS: &str = "tokenizer_config.json";
        let text = match files.text("chat_template.jinja")? {
            Some(text) => Some(text),
            None => {
                let config: TokenizerConfig = files.json(SETTINGS)?.unwrap_or_default();
                let text = config.chat_template.map(Templates::default_one).transpose();
                text.with_context(|| format!("in {}", files.place_of(SETTINGS)))?
            }
        };
        let Some(text) = text else { return Ok(None) };
        let template = ChatTemplate::new(&text);
        let mut template = template.with_context(|| format!("in {}", files.place()))?;
        for (name, text) in special_tokens(files)? {
            template.variables.insert(name.into(), text.map_or(Value::UNDEFINED, Value::from));
        }
        Ok(Some(template))
    }

    /// The template with a variable, such as `enable_thinking` of some models, or a special token as `bos_token`.
    pub fn with_variable(mut self, name: impl Into<String>, value: impl Serialize) -> ChatTemplate {
        self.variables.insert(name.into(), Value::from_serialize(value));
        self
    }

    /// The template at a time: that of `strftime_now`, in seconds since 1970 began in UTC, and by how many seconds clocks are ahead
    /// of UTC. Without it, the time is that of the system when the text is asked for, which `wasm32-unknown-unknown` does not have:
    /// there `strftime_now` is an error.
    ///
    /// ```
    /// use tract_openvino_generation::ChatTemplate;
    ///
    /// let template = ChatTemplate::new("Today is {{ strftime_now('%d %B %Y, %H:%M') }}.")?;
    /// let template = template.with_time(1_700_000_000, 3600)?;
    /// assert_eq!(template.render(&[], true)?, "Today is 14 November 2023, 23:13.");
    /// # tract_openvino_generation::prelude::TractResult::Ok(())
    /// ```
    ///
    /// # Errors
    ///
    /// The time is not in the years from -9999 to 9999, or the clocks are ahead by more than a day.
    pub fn with_time(mut self, seconds: i64, offset: i32) -> TractResult<ChatTemplate> {
        let offset = Offset::from_seconds(offset)?;
        let time = Timestamp::from_second(seconds)?.to_zoned(TimeZone::fixed(offset));
        self.program.set_function("strftime_now", move |format: String| time_as(&format, &time));
        Ok(self)
    }

    /// The text of a chat. With `add_generation_prompt`, it ends where the answer of the model begins.
    ///
    /// # Errors
    ///
    /// The template refuses the messages, or asks for what is not there, such as a special token that is not known.
    pub fn render(&self, messages: &[Message], add_generation_prompt: bool) -> TractResult<String> {
        for token in ["bos_token", "eos_token"] {
            ensure!(
                self.variables.contains_key(token) || !self.program.names(token),
                "the chat template names {token}, which neither tokenizer_config.json nor special_tokens_map.json has: it must \
                 be there, or be given as a variable; null is none"
            );
        }
        let mut variables = self.variables.clone();
        variables.insert("messages".into(), Value::from_serialize(messages));
        variables.insert("add_generation_prompt".into(), add_generation_prompt.into());
        self.program.render(Value::from(variables)).context("filling in a chat template")
    }
}

fn raise_exception(message: String) -> Result<String, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

/// The time of now as the format of `strftime` says.
fn strftime_now(format: String) -> Result<String, Error> {
    let unknown = || refused(&format, "there is no clock here: the time must be given");
    time_as(&format, &system::now().ok_or_else(unknown)?)
}

/// A time as the format of `strftime` says.
fn time_as(format: &str, time: &Zoned) -> Result<String, Error> {
    strtime::format(format, time).map_err(|error| refused(format, error))
}

/// Why `strftime_now` gives nothing.
fn refused(format: &str, why: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("strftime_now({format:?}): {why}"))
}

/// What is read of `tokenizer_config.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TokenizerConfig {
    chat_template: Option<Templates>,
}

/// One template, or several that have names.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "chat_template must be a text, or a list of templates with names")]
enum Templates {
    One(String),
    Named(Vec<NamedTemplate>),
}

#[derive(Debug, Deserialize)]
struct NamedTemplate {
    name: String,
    template: String,
}

impl Templates {
    fn default_one(self) -> TractResult<String> {
        match self {
            Templates::One(text) => Ok(text),
            Templates::Named(all) => {
                let names: Vec<&str> = all.iter().map(|template| &*template.name).collect();
                let names = format!("{names:?}");
                let found = all.into_iter().find(|template| template.name == "default");
                let found = found.with_context(|| {
                    format!("there are the chat templates {names}, but there must be one of the name \"default\"")
                })?;
                Ok(found.template)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With what templates of models use: blocks on their own lines, methods of strings, and namespaces.
    const TEMPLATE: &str = "{{- bos_token }}
{%- set state = namespace(system='none') %}
{%- if messages[0]['role'] == 'system' %}
    {%- set state.system = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- endif %}
[{{ state.system }}]
{% for message in messages %}
    {% if message.role not in ['user', 'assistant'] %}
        {{ raise_exception('no role ' + message.role) }}
    {% endif %}
    {% set content = message.content.split('</think>')[-1].lstrip('\\n') %}
<{{ message['role'].upper() }}> {{ content }}{{ eos_token if not loop.last }}
{% endfor %}
{% if tools or documents is not none %}never{% endif %}
{% if add_generation_prompt %}
<ASSISTANT>
{%- endif %}
";

    fn folder(files: &[(&str, &str)]) -> TractResult<Option<ChatTemplate>> {
        let folder = tempfile::tempdir()?;
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text)?;
        }
        ChatTemplate::from_folder(&folder)
    }

    #[test]
    fn as_transformers_writes_it() -> TractResult<()> {
        let config = r#"{"bos_token": "<s>", "eos_token": {"content": "</s>", "special": true}}"#;
        let files = [("chat_template.jinja", TEMPLATE), ("tokenizer_config.json", config)];
        let template = folder(&files)?.context("it is there")?;
        let messages = [
            Message::system(" Be short. "),
            Message::user("Hi!"),
            Message::assistant("<think>\n</think>\n\nHello."),
        ];
        assert_eq!(
            template.render(&messages, true)?,
            "<s>[Be short.]\n<USER> Hi!</s>\n<ASSISTANT> Hello.\n<ASSISTANT>"
        );
        assert_eq!(template.render(&messages[1..2], false)?, "<s>[none]\n<USER> Hi!\n");
        let error =
            format!("{:#}", template.render(&[Message::new("tool", "")], true).unwrap_err());
        assert!(error.contains("no role tool"), "{error}");
        Ok(())
    }

    #[test]
    fn in_the_settings_of_the_tokenizer() -> TractResult<()> {
        for (config, expected) in [
            (r#"{"chat_template": "one {{ bos_token }}", "bos_token": null}"#, Some("one ")),
            (
                r#"{"chat_template": [{"name": "tools", "template": "two"}, {"name": "default", "template": "three"}]}"#,
                Some("three"),
            ),
            (r#"{"bos_token": null, "eos_token": "</s>"}"#, None),
        ] {
            let template = folder(&[("tokenizer_config.json", config)])?;
            let text = template.map(|it| it.render(&[], true)).transpose()?;
            assert_eq!(text.as_deref(), expected);
        }
        assert!(folder(&[])?.is_none());
        let named = r#"{"chat_template": [{"name": "tools", "template": "one"}, {"name": "rag", "template": "two"}]}"#;
        let error = format!("{:#}", folder(&[("tokenizer_config.json", named)]).unwrap_err());
        assert!(
            error.contains(
                r#"tokenizer_config.json: there are the chat templates ["tools", "rag"]"#
            ),
            "{error}"
        );
        Ok(())
    }

    fn rendered(text: &str) -> TractResult<String> {
        ChatTemplate::new(text)?.render(&[Message::user("<é> \"")], true)
    }

    #[test]
    fn special_tokens_of_older_files() -> TractResult<()> {
        let text = ("chat_template.jinja", "{{ bos_token }}Hi{{ eos_token }}");
        let map = (
            "special_tokens_map.json",
            r#"{"bos_token": {"content": "<s>"}, "eos_token": "</s>"}"#,
        );
        let template = folder(&[text, map])?.context("it is there")?;
        assert_eq!(template.render(&[], true)?, "<s>Hi</s>");
        // One that is nowhere is not left out.
        let one = ("tokenizer_config.json", r#"{"eos_token": "</s>"}"#);
        let template = folder(&[text, one])?.context("it is there")?;
        let error = template.render(&[], true).unwrap_err().to_string();
        assert!(error.contains("the chat template names bos_token"), "{error}");
        assert_eq!(template.with_variable("bos_token", "<b>").render(&[], true)?, "<b>Hi</s>");
        Ok(())
    }

    #[test]
    fn no_tools_and_no_documents() -> TractResult<()> {
        let text = "{% if tools is none and documents is none %}none{% endif %}";
        assert_eq!(rendered(text)?, "none");
        let template = ChatTemplate::new("{% for tool in tools %}{{ tool.name }}{% endfor %}")?;
        let tools = [BTreeMap::from([("name", "search")])];
        assert_eq!(template.with_variable("tools", tools).render(&[], true)?, "search");
        Ok(())
    }

    #[test]
    fn variables_of_a_template() -> TractResult<()> {
        let text =
            "{% if enable_thinking is defined and enable_thinking is false %}quick{% endif %}";
        let template = ChatTemplate::new(text)?;
        assert_eq!(template.render(&[], true)?, "");
        assert_eq!(template.with_variable("enable_thinking", false).render(&[], true)?, "quick");
        Ok(())
    }

    #[test]
    fn blocks_of_what_the_model_says() -> TractResult<()> {
        let text = "{% for message in messages %}\n  {% generation %}\n{{ message.role }}\n  {%- endgeneration -%}  \n{% endfor %}!";
        assert_eq!(rendered(text)?, "user!");
        assert_eq!(rendered("{% if true %}{{ 'generation' }}{%endif%}")?, "generation");
        Ok(())
    }

    #[test]
    fn the_time_of_now() -> TractResult<()> {
        let year = rendered("{{ strftime_now('%Y') }}")?;
        assert!(year.parse::<u32>()? > 2024, "{year}");
        assert_eq!(rendered("{{ strftime_now('%d %b')|length }}")?, "6");
        assert!(
            format!("{:#}", rendered("{{ strftime_now('%!') }}").unwrap_err())
                .contains("strftime_now")
        );
        Ok(())
    }

    /// Within a macro, too, and in years that are not this one.
    #[test]
    fn a_time_that_is_given() -> TractResult<()> {
        let text =
            "{% macro day() %}{{ strftime_now('%d %b %Y %H:%M %z') }}{% endmacro %}{{ day() }}";
        let template = ChatTemplate::new(text)?;
        for (seconds, offset, expected) in [
            (0, 0, "01 Jan 1970 00:00 +0000"),
            (5_000_000_000i64, -5400, "11 Jun 2128 07:23 -0130"),
        ] {
            let template = template.clone().with_time(seconds, offset)?;
            assert_eq!(template.render(&[], true)?, expected);
        }
        assert!(template.clone().with_time(i64::MAX, 0).is_err());
        assert!(template.with_time(0, i32::MAX).is_err());
        Ok(())
    }

    /// As Python writes it: `json.dumps(value, ensure_ascii=False)`.
    #[test]
    fn json_of_python() -> TractResult<()> {
        assert_eq!(rendered("{{ messages[0].content | tojson }}")?, r#""<é> \"""#);
        let list = "{{ [1, 'two', none, {'three': [], 'a': 2.5}, true] | tojson }}";
        assert_eq!(rendered(list)?, r#"[1, "two", null, {"three": [], "a": 2.5}, true]"#);
        assert_eq!(
            rendered("{{ messages | tojson }}")?,
            r#"[{"role": "user", "content": "<é> \""}]"#
        );
        assert_eq!(
            rendered("{{ {'a': [1]} | tojson(indent=2) }}")?,
            "{\n  \"a\": [\n    1\n  ]\n}"
        );
        assert!(rendered("{{ 1 | tojson(indent=9999999999999999) }}").is_err());
        Ok(())
    }

    #[test]
    fn what_templates_may_not_do() {
        let doubled = |start: &str| {
            format!(
                "{{% set ns = namespace(t={start}) %}}{{% for i in range(60) %}}{{% set ns.t = ns.t + ns.t %}}{{% endfor %}}"
            )
        };
        let nested = "{% set ns = namespace(t=[]) %}{% for i in range(300) %}{% set ns.t = [ns.t] %}{% endfor %}";
        let endless = "{% for i in range(9999) %}".repeat(3) + &"{% endfor %}".repeat(3);
        for (template, expected) in [
            (doubled("'a'").as_str(), "the result of + is too large"),
            (doubled("[1]").as_str(), "the result of + is too large"),
            ("{{ 'ab' * 999999999 }}", "the result of * is too large"),
            ("{{ 9 ** 999 }}", "the result of ** is too large"),
            ("{{ [1]|slice(99999999999999)|list }}", "slice needs a number from 1 to 10000"),
            ("{{ [1]|batch(99999999999999)|list }}", "batch needs a number from 1 to 10000"),
            ("{{ 'a'|indent(99999999999999) }}", "indent takes 10000 at most"),
            ("{{ 'a'.ljust(99999999999999) }}", "ljust makes 100000 characters at most"),
            ("{{ '%999999999d' % 1 }}", "a place is 999999999 wide"),
            ("{{ '{:999999999}'.format(1) }}", "a place is as wide as"),
            (&format!("{nested}{{{{ ns.t }}}}"), "more than 200 lists"),
            (&format!("{nested}{{{{ ns.t|tojson }}}}"), "more than 200 lists"),
            (&format!("{nested}{{{{ ns.t == [ns.t] }}}}"), "more than 200 lists"),
            (&endless, "ran out of fuel"),
            ("{{ [1]|map('upper') }}", "has no text: list gives one"),
            ("{{ 'a'.upper }}", "upper is a method of a string"),
            ("{% set m = {'b': 1} %}{{ m['items'] }}", "no item \"items\", but a method"),
            (
                "{% for i in [1] %}{{ loop.cycle() }}{% endfor %}",
                "no method named cycle without items",
            ),
            ("{{ 1 is divisibleby 0 }}", "none is divisible by 0"),
            ("{{ [3, 'a']|sort }}", "< does not take"),
            ("{{ '\\N{DASH}' }}", "characters by their names"),
            (&format!("{{{{ {} }}}}", "(".repeat(100_000)), "150 brackets in each other"),
            (&format!("{{{{ {}1 }}}}", "- ".repeat(100_000)), "maximum recursion"),
        ] {
            let error = format!("{:#}", rendered(template).unwrap_err());
            assert!(error.contains(expected), "{}: {error}", &template[..template.len().min(100)]);
        }
    }

    #[test]
    fn what_is_no_template() {
        let error = format!("{:#}", folder(&[("chat_template.jinja", "{% if %}")]).unwrap_err());
        assert!(error.contains("reading a chat template"), "{error}");
    }
}
