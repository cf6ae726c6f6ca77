//! Chat templates: the messages of a chat as one text.

use std::path::Path;

use minijinja::{Environment, Error, ErrorKind, Value, context};
use serde::{Deserialize, Serialize};
use tract_core::internal::*;

use crate::files::{read_json, read_text};

/// A message of a chat.
///
/// ```
/// use tract_openvino_generation::Message;
///
/// let messages = [Message::system("Answer in one word."), Message::user("What is the capital of France?")];
/// assert_eq!(messages[1].role, "user");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
/// It sees `messages`, `add_generation_prompt`, `bos_token`, `eos_token` and `raise_exception`, and strings have the methods
/// of Python's. There are no tools, and no `strftime_now`: templates that look for it have a date of their own without it.
///
/// ```
/// use tract_openvino_generation::{ChatTemplate, Message};
///
/// let template = ChatTemplate::new(
///     "{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}\
///      {% if add_generation_prompt %}<assistant>{% endif %}",
/// )?;
/// assert_eq!(template.render(&[Message::user("Hi!")], true)?, "<user>Hi!<assistant>");
/// # tract_openvino_generation::prelude::TractResult::Ok(())
/// ```
#[derive(Debug, Clone)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    bos_token: Option<String>,
    eos_token: Option<String>,
}

const NAME: &str = "chat template";

impl ChatTemplate {
    /// A template from its text, without special tokens.
    ///
    /// # Errors
    ///
    /// The text is no template.
    pub fn new(text: &str) -> TractResult<ChatTemplate> {
        let mut environment = Environment::new();
        // As transformers sets it.
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        let raise = |message: String| -> Result<String, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        };
        environment.add_function("raise_exception", raise);
        let added = environment.add_template_owned(NAME, text.to_string());
        added.context("reading a chat template")?;
        Ok(ChatTemplate { environment, bos_token: None, eos_token: None })
    }

    /// The template of a folder, with its special tokens, or `None` if it has none.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or has no template in it.
    pub fn from_folder(folder: impl AsRef<Path>) -> TractResult<Option<ChatTemplate>> {
        let folder = folder.as_ref();
        let config: TokenizerConfig =
            read_json(&folder.join("tokenizer_config.json"))?.unwrap_or_default();
        let text = match read_text(&folder.join("chat_template.jinja"))? {
            Some(text) => Some(text),
            None => config.chat_template.and_then(Templates::default_one),
        };
        let Some(text) = text else { return Ok(None) };
        let template = ChatTemplate::new(&text);
        let template = template.with_context(|| format!("in {}", folder.display()))?;
        let [bos_token, eos_token] =
            [config.bos_token, config.eos_token].map(|it| it.map(Token::text));
        Ok(Some(ChatTemplate { bos_token, eos_token, ..template }))
    }

    /// The text of a chat. With `add_generation_prompt`, it ends where the answer of the model begins.
    ///
    /// # Errors
    ///
    /// The template refuses the messages, or asks for what is not there.
    pub fn render(&self, messages: &[Message], add_generation_prompt: bool) -> TractResult<String> {
        let token = |token: &Option<String>| token.as_ref().map_or(Value::UNDEFINED, Value::from);
        let (bos_token, eos_token) = (token(&self.bos_token), token(&self.eos_token));
        let template = self.environment.get_template(NAME)?;
        let text =
            template.render(context! { messages, add_generation_prompt, bos_token, eos_token });
        text.context("filling in a chat template")
    }
}

/// What is read of `tokenizer_config.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TokenizerConfig {
    chat_template: Option<Templates>,
    bos_token: Option<Token>,
    eos_token: Option<Token>,
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
    fn default_one(self) -> Option<String> {
        match self {
            Templates::One(text) => Some(text),
            Templates::Named(all) => {
                let found = all.into_iter().find(|template| template.name == "default")?;
                Some(found.template)
            }
        }
    }
}

/// A token, alone or with what else is known of it.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a token must be a text, or have its text as content")]
enum Token {
    Text(String),
    Added { content: String },
}

impl Token {
    fn text(self) -> String {
        match self {
            Token::Text(text) | Token::Added { content: text } => text,
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
{% if strftime_now is defined %}never{% endif %}
{% if tools %}never{% endif %}
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
            (r#"{"chat_template": "one {{ bos_token }}"}"#, Some("one ")),
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
        Ok(())
    }

    #[test]
    fn what_is_no_template() {
        let error = format!("{:#}", folder(&[("chat_template.jinja", "{% if %}")]).unwrap_err());
        assert!(error.contains("reading a chat template"), "{error}");
    }
}
