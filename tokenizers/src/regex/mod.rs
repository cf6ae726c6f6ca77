//! Regular expressions as PCRE2 has them, which OpenVINO's tokenizers use: in UTF-8, with Unicode's properties.
//!
//! A pattern is written anew in the syntax of the crates here ([`pcre`]). If it needs neither look-around nor back-references, a finite
//! automaton finds its matches, in time that is linear in the length of the text. `\s+(?!\S)`, which the patterns of GPT-2 and of all its
//! descendants end with, needs none either: see [`pcre::Alternative::AllButLastSpace`]. The rest is for `fancy-regex`, which gives up
//! after a number of steps.

mod matcher;
mod pcre;
mod replacement;
mod text;

pub(crate) use matcher::Matcher;
pub(crate) use replacement::Replacement;
pub(crate) use text::Text;
