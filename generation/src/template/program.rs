//! A template that runs as in Python: minijinja parses, compiles and runs it, with other operators.

use minijinja::machinery::{
    CompiledTemplate, Instruction, Instructions, TemplateConfig, Token, Vm, WhitespaceConfig,
    make_string_output, tokenize,
};
use minijinja::{AutoEscape, Environment, Value};

use super::values::{Result, html, refused, text};
use super::{filters, methods, operators};

/// The name of the template in errors.
const NAME: &str = "chat template";

/// How many instructions a template may run: some seconds of them.
const MOST_STEPS: u64 = 10_000_000;

/// How many brackets may be in each other, and signs before each other. minijinja's limit is about as large.
const DEEPEST: usize = 150;

/// The functions that make tuples, empty lists and empty mappings.
const TUPLE: &str = "__tuple";
const LIST: &str = "__list";
const MAPPING: &str = "__mapping";

/// A template, and what it may use.
#[derive(Debug, Clone)]
pub(super) struct Program {
    environment: Environment<'static>,
    source: String,
}

impl Program {
    /// A template in the environment of transformers. What it may use in addition, `add` adds.
    pub(super) fn new(source: &str, add: fn(&mut Environment<'static>)) -> Result<Program> {
        let mut environment = Environment::new();
        environment.set_fuel(Some(MOST_STEPS));
        environment.set_unknown_method_callback(methods::call);
        environment.set_formatter(|out, state, value| {
            let text = match state.auto_escape() {
                AutoEscape::None => text(value)?,
                _ => html(value)?,
            };
            Ok(out.write_str(&text)?)
        });
        environment.add_function(TUPLE, |items: minijinja::value::Rest<Value>| {
            super::values::tuple(items.0)
        });
        environment.add_function(LIST, || Value::from(Vec::<Value>::new()));
        environment.add_function(MAPPING, || Value::from_iter(Vec::<(Value, Value)>::new()));
        operators::add_to(&mut environment);
        filters::add_to(&mut environment);
        add(&mut environment);
        let source = source.replace("\r\n", "\n").replace('\r', "\n");
        let source = rewritten(&source, &mut environment)?;
        let program = Program { environment, source };
        program.compiled()?;
        Ok(program)
    }

    /// Gives a function another meaning.
    pub(super) fn set_function(
        &mut self,
        name: &'static str,
        function: impl Fn(String) -> Result<String> + Send + Sync + 'static,
    ) {
        self.environment.add_function(name, function);
    }

    /// Whether the template names a variable that it does not set.
    pub(super) fn names(&self, variable: &str) -> bool {
        let template = self.environment.template_from_str(&self.source);
        template.is_ok_and(|it| it.undeclared_variables(false).contains(variable))
    }

    /// The text that comes of variables, which are a mapping.
    pub(super) fn render(&self, variables: Value) -> Result<String> {
        let compiled = self.compiled()?;
        let mut out = String::new();
        Vm::new(&self.environment).eval(
            &compiled.instructions,
            variables,
            &compiled.blocks,
            &mut make_string_output(&mut out),
            AutoEscape::None,
        )?;
        Ok(out)
    }

    fn compiled(&self) -> Result<CompiledTemplate<'_>> {
        let config = TemplateConfig {
            syntax_config: Default::default(),
            ws_config: white_space(),
            default_auto_escape: std::sync::Arc::new(|_| AutoEscape::None),
        };
        let mut compiled = CompiledTemplate::new(NAME, &self.source, &config)?;
        use_operators(&mut compiled.instructions);
        for block in compiled.blocks.values_mut() {
            use_operators(block);
        }
        Ok(compiled)
    }
}

/// As transformers sets it.
fn white_space() -> WhitespaceConfig {
    WhitespaceConfig { keep_trailing_newline: false, lstrip_blocks: true, trim_blocks: true }
}

/// Calls functions in place of minijinja's operators, which take as many values.
fn use_operators(instructions: &mut Instructions<'_>) {
    let count = u32::try_from(instructions.len()).unwrap_or(u32::MAX);
    for index in 0..count {
        let Some(instruction) = instructions.get_mut(index) else { return };
        let (function, arguments) = match instruction {
            Instruction::Add => ("+", 2),
            Instruction::Sub => ("-", 2),
            Instruction::Mul => ("*", 2),
            Instruction::Div => ("/", 2),
            Instruction::IntDiv => ("//", 2),
            Instruction::Rem => ("%", 2),
            Instruction::Pow => ("**", 2),
            Instruction::Neg => ("-x", 1),
            Instruction::StringConcat => ("~", 2),
            Instruction::Eq => ("==", 2),
            Instruction::Ne => ("!=", 2),
            Instruction::Lt => ("<", 2),
            Instruction::Lte => ("<=", 2),
            Instruction::Gt => (">", 2),
            Instruction::Gte => (">=", 2),
            Instruction::In => ("in", 2),
            Instruction::Slice => ("[:]", 4),
            Instruction::GetItem => ("[]", 2),
            Instruction::BuildMap(count) => match u16::try_from(*count * 2) {
                Ok(count) => ("{:}", count),
                Err(_) => continue,
            },
            Instruction::GetAttr(name) => {
                match operators::METHODS.iter().find(|it| it[1..] == **name) {
                    Some(method) => (*method, 1),
                    None => continue,
                }
            }
            // Without arguments, minijinja divides by their number.
            Instruction::CallMethod(name, Some(1) | None) if *name == "cycle" => {
                *instruction = Instruction::CallMethod("cycle without items", Some(1));
                continue;
            }
            _ => continue,
        };
        *instruction = Instruction::CallFunction(function, Some(arguments));
    }
}

/// The text of a template without what minijinja would do in another way before it runs:
///
/// * A literal becomes a variable, as minijinja calculates with literals while it compiles, and knows fewer escapes.
/// * Tuples, which are lists to minijinja, become calls, and so do empty lists and mappings, which are literals too.
/// * What a sign stands before gets parentheses: to minijinja, `-a.b` is `(-a).b`.
/// * What follows `else` in a loop, and is in blocks of `set` and `filter`, becomes a scope, which it is in Jinja2.
/// * `{% generation %}`, between which and its end transformers notes what the model said, becomes a scope.
fn rewritten(source: &str, environment: &mut Environment<'static>) -> Result<String> {
    let tokens = tokenize(source, false, Default::default(), white_space());
    let tokens = tokens.collect::<Result<Vec<_>>>()?;
    let token = |index: usize| tokens.get(index).map(|(token, _)| token);
    let mut result = String::with_capacity(source.len());
    let mut end = 0;
    let mut literals = 0;
    // The text of the literal before, which one that follows is added to.
    let mut last_text: Option<String> = None;
    // What comes after a token.
    let mut after = vec![0; tokens.len()];
    let mut depth = 0_usize;
    let mut is_target = false;
    // The blocks `if` and `for` around a token.
    let mut blocks: Vec<Block> = vec![];
    // The end of a tag after which a scope begins.
    let mut scope = None;
    // The end of an empty list or mapping.
    let mut close = None;
    for (index, (this, span)) in tokens.iter().enumerate() {
        let written = &source[span.start_offset as usize..span.end_offset as usize];
        let rest = &tokens[index + 1..];
        let before = index.checked_sub(1).and_then(token);
        let second = index.checked_sub(2).and_then(token);
        let begins_block = matches!(before, Some(Token::BlockStart));
        let is_after_dot = matches!(before, Some(Token::Dot | Token::Pipe));
        let is_test = matches!(before, Some(Token::Ident("is")))
            || matches!((second, before), (Some(Token::Ident("is")), Some(Token::Ident("not"))));
        let is_value = !is_after_dot && !is_test;
        let mut literal = |value: Value| {
            literals += 1;
            let name = format!(" __literal_{literals} ");
            environment.add_global(name.trim().to_string(), value);
            name
        };
        match this {
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => depth += 1,
            Token::ParenClose | Token::BracketClose | Token::BraceClose => {
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
        // What is in them is looked through for each.
        if depth > DEEPEST {
            return Err(refused(format!("there are more than {DEEPEST} brackets in each other")));
        }
        let mut text = None;
        let replacement = match this {
            Token::Str(_) | Token::String(_) => {
                let part = unescaped(written)?;
                let all = last_text.take().unwrap_or_default() + &part;
                // The last one of those that follow each other has the text of all.
                let is_last = !matches!(rest.first(), Some((Token::Str(_) | Token::String(_), _)));
                let replacement = if is_last { literal(all.clone().into()) } else { String::new() };
                text = Some(all);
                Some(replacement)
            }
            Token::Int(number) if is_value => Some(literal((*number).into())),
            Token::Int128(number) if is_value => Some(literal((**number).into())),
            Token::Float(number) if is_value => Some(literal((*number).into())),
            Token::Ident("true" | "True") if is_value => Some(literal(true.into())),
            Token::Ident("false" | "False") if is_value => Some(literal(false.into())),
            Token::Ident("none" | "None") if is_value => Some(literal(().into())),
            Token::Ident(name @ ("generation" | "endgeneration"))
                if begins_block && matches!(rest.first(), Some((Token::BlockEnd, _))) =>
            {
                Some(name.replace("generation", "with"))
            }
            Token::Ident("with") if begins_block => {
                check_with(rest.iter().map(|(token, _)| token))?;
                None
            }
            Token::Ident("self") if is_value && !matches!(rest.first(), Some((Token::Dot, _))) => {
                return Err(refused("self has no text"));
            }
            Token::Ident(name @ ("for" | "set")) if begins_block => {
                if *name == "for" {
                    blocks.push(Block { is_loop: true, ..Block::default() });
                }
                is_target = true;
                if *name == "set" && !has(rest.iter().map(|(token, _)| token), is_assign) {
                    scope = Some(index + length(rest));
                }
                None
            }
            Token::Ident("filter") if begins_block => {
                scope = Some(index + length(rest));
                None
            }
            Token::Ident(name @ ("endset" | "endfilter")) if begins_block => {
                Some(format!("endwith %}}{{% {name}"))
            }
            Token::BlockEnd if scope == Some(index) => {
                is_target = false;
                Some(format!(" %}}{{% with {written}"))
            }
            Token::Ident("if") if begins_block => {
                blocks.push(Block::default());
                None
            }
            Token::Ident("break" | "continue") if begins_block => {
                if let Some(block) = blocks.iter_mut().rfind(|it| it.is_loop) {
                    block.has_jump = true;
                }
                None
            }
            Token::Ident("else") if begins_block => {
                let block = blocks.last_mut().filter(|it| it.is_loop);
                block.map(|block| {
                    block.has_else = true;
                    "else %}{% with".to_string()
                })
            }
            Token::Ident("endif" | "endfor") if begins_block => {
                let block = blocks.pop().unwrap_or_default();
                if block.has_else && block.has_jump {
                    return Err(refused(
                        "a loop has else, and break or continue, which is not supported",
                    ));
                }
                (block.is_loop && block.has_else).then(|| "endwith %}{% endfor".to_string())
            }
            // A line that ends after other blocks goes, but not after this one.
            Token::TemplateData(_) if follows_raw(source, span.start_offset as usize) => {
                Some(format!("\n{written}"))
            }
            Token::Ident("in") | Token::BlockEnd => {
                is_target = false;
                None
            }
            // A tuple without parentheses.
            Token::Assign if is_target => {
                is_target = false;
                has(rest.iter().map(|(token, _)| token), is_comma).then(|| {
                    after[index + length(rest) - 1] += 1;
                    format!("= {TUPLE}(")
                })
            }
            Token::VariableStart if has(rest.iter().map(|(token, _)| token), is_comma) => {
                after[index + length(rest) - 1] += 1;
                Some(format!("{written} {TUPLE}("))
            }
            Token::BracketOpen | Token::BraceOpen
                if !ends_operand(before, second)
                    && matches!(
                        rest.first(),
                        Some((Token::BracketClose | Token::BraceClose, _))
                    ) =>
            {
                close = Some(index + 1);
                let function = if matches!(this, Token::BracketOpen) { LIST } else { MAPPING };
                Some(format!(" {function}("))
            }
            Token::BracketClose | Token::BraceClose if close == Some(index) => Some(")".into()),
            Token::ParenOpen if !is_target && !ends_operand(before, second) => {
                let is_empty = matches!(rest.first(), Some((Token::ParenClose, _)));
                let is_tuple = is_empty || has(rest.iter().map(|(token, _)| token), is_comma);
                is_tuple.then(|| format!(" {TUPLE}("))
            }
            Token::Minus | Token::Plus if !ends_operand(before, second) => {
                after[index + operand(rest.iter().map(|(token, _)| token))] += 1;
                Some(if matches!(this, Token::Minus) { "-(" } else { "(" }.to_string())
            }
            _ => None,
        };
        last_text = text;
        if let Some(replacement) = replacement {
            result += &source[end..span.start_offset as usize];
            result += &replacement;
            end = span.end_offset as usize;
        }
        if after[index] > 0 {
            result += &source[end..span.end_offset as usize];
            result += &")".repeat(after[index]);
            end = span.end_offset as usize;
        }
    }
    result += &source[end..];
    Ok(result)
}

/// A block that may have an `else`.
#[derive(Debug, Default)]
struct Block {
    is_loop: bool,
    has_else: bool,
    /// Whether there is a `break` or `continue`, after which Jinja2 may go on with `else`, and minijinja never does.
    has_jump: bool,
}

/// Whether a line ends right after the tag `{% raw %}` at this place.
fn follows_raw(source: &str, place: usize) -> bool {
    let (before, after) = source.split_at(place);
    let Some(before) = before.strip_suffix("%}").filter(|_| after.starts_with('\n')) else {
        return false;
    };
    let tag = before.rfind("{%").map_or("", |start| &before[start + 2..]);
    tag.trim_start_matches(['-', '+']).trim() == "raw"
}

/// Whether what is calculated with may end here: a parenthesis begins arguments then, and a sign is an operator.
fn ends_operand(this: Option<&Token<'_>>, before: Option<&Token<'_>>) -> bool {
    const OPERATORS: [&str; 9] =
        ["and", "elif", "else", "if", "in", "is", "not", "or", "recursive"];
    match this {
        // There is a test of this name, and attributes may have any.
        Some(Token::Ident(name)) => {
            !OPERATORS.contains(name)
                || matches!(before, Some(Token::Ident("is") | Token::Dot | Token::Pipe))
        }
        Some(Token::ParenClose | Token::BracketClose | Token::BraceClose) => true,
        Some(Token::Str(_) | Token::String(_)) => true,
        Some(Token::Int(_) | Token::Int128(_) | Token::Float(_)) => true,
        _ => false,
    }
}

/// How many tokens an operand after a sign has, with its attributes, items and arguments.
fn operand<'a>(tokens: impl Iterator<Item = &'a Token<'a>>) -> usize {
    let mut depth = 0_usize;
    let (mut count, mut signs) = (0, 0);
    let mut tokens = tokens.peekable();
    while let Some(token) = tokens.next() {
        count += 1;
        match token {
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => depth += 1,
            Token::ParenClose | Token::BracketClose | Token::BraceClose => {
                depth = depth.saturating_sub(1);
            }
            // Signs may follow each other.
            Token::Minus | Token::Plus if depth == 0 && signs < DEEPEST => {
                signs += 1;
                continue;
            }
            Token::BlockEnd | Token::VariableEnd => return count - 1,
            _ => {}
        }
        let goes_on = matches!(token, Token::Dot)
            || matches!(tokens.peek(), Some(Token::Dot | Token::BracketOpen | Token::ParenOpen));
        if depth == 0 && !goes_on {
            break;
        }
    }
    count
}

/// How many tokens there are up to the end of the tag, with that.
fn length<S>(tokens: &[(Token<'_>, S)]) -> usize {
    let is_end =
        |(token, _): &&(Token<'_>, S)| matches!(token, Token::BlockEnd | Token::VariableEnd);
    1 + tokens.iter().take_while(|it| !is_end(it)).count()
}

fn is_comma(token: &Token<'_>) -> bool {
    matches!(token, Token::Comma)
}

fn is_assign(token: &Token<'_>) -> bool {
    matches!(token, Token::Assign)
}

/// Whether there is such a token before the end of what these tokens are in, and in no parentheses of its own.
fn has<'a>(tokens: impl Iterator<Item = &'a Token<'a>>, is: fn(&Token<'_>) -> bool) -> bool {
    let mut depth = 0_usize;
    for token in tokens {
        match token {
            _ if depth == 0 && is(token) => return true,
            Token::BlockEnd | Token::VariableEnd => return false,
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => depth += 1,
            Token::ParenClose | Token::BracketClose | Token::BraceClose => {
                let Some(outer) = depth.checked_sub(1) else { return false };
                depth = outer;
            }
            _ => {}
        }
    }
    false
}

/// Fails where a value of `{% with %}` names what it sets: to minijinja it is set already.
fn check_with<'a>(tokens: impl Iterator<Item = &'a Token<'a>>) -> Result<()> {
    let mut set: Vec<&str> = vec![];
    let mut depth = 0_usize;
    let mut last: Option<&Token<'_>> = None;
    let mut tokens = tokens.take_while(|it| !matches!(it, Token::BlockEnd)).peekable();
    while let Some(token) = tokens.next() {
        match token {
            Token::Ident(name) if !matches!(last, Some(Token::Dot)) => {
                if depth == 0 && matches!(tokens.peek(), Some(Token::Assign)) {
                    set.push(name);
                } else if set.contains(name) {
                    return Err(refused(format!("{{% with %}} sets {name}, and names it too")));
                }
            }
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => depth += 1,
            Token::ParenClose | Token::BracketClose | Token::BraceClose => {
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
        last = Some(token);
    }
    Ok(())
}

/// The text of a literal in quotes, with Python's escapes.
fn unescaped(literal: &str) -> Result<String> {
    let inner = literal.get(1..literal.len().saturating_sub(1)).unwrap_or_default();
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((before, after)) = rest.split_once('\\') {
        out += before;
        let mut characters = after.chars();
        let escape = characters.next();
        rest = characters.as_str();
        let code = |text: &str, radix: u32| {
            let code = u32::from_str_radix(text, radix).ok().and_then(char::from_u32);
            code.ok_or_else(|| refused(format!("there is no character of the number {text}")))
        };
        let digits = match escape {
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            _ => 0,
        };
        match escape {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('a') => out.push('\x07'),
            Some('b') => out.push('\x08'),
            Some('f') => out.push('\x0c'),
            Some('v') => out.push('\x0b'),
            Some('\n') => {}
            Some(quote @ ('\\' | '\'' | '"')) => out.push(quote),
            Some('0'..='7') => {
                let length = after.bytes().take(3).take_while(|it| (b'0'..=b'7').contains(it));
                let (number, after) = after.split_at(length.count());
                out.push(code(number, 8)?);
                rest = after;
            }
            Some('x' | 'u' | 'U') => {
                let (number, after) = rest.split_at_checked(digits).unwrap_or((rest, ""));
                if number.len() < digits || !number.bytes().all(|it| it.is_ascii_hexdigit()) {
                    return Err(refused(format!("an escape has {number:?} in place of a number")));
                }
                out.push(code(number, 16)?);
                rest = after;
            }
            Some('N') => return Err(refused("characters by their names are not supported")),
            // Python leaves others as they are.
            other => {
                out.push('\\');
                out.extend(other);
            }
        }
    }
    Ok(out + rest)
}
