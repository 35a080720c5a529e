//! `@include`, `@load` and `@namespace`.

use super::{Fault, Include, Parse, Parser};
use crate::ast::Program;
use crate::diagnostic::Lint;
use crate::lex::{Token, check_namespace};
use crate::names::Library;

impl Parser<'_> {
    /// A directive up to the end of its line. `@include` is handed up, since its text is not at hand here.
    pub(super) fn directive(&mut self, program: &mut Program) -> Parse<Option<Include>> {
        let place = self.span;
        let word = self.bump();
        let span = self.span;
        let Token::Str(text) = &mut self.token else {
            return self.fail("a string after the directive, on the same line");
        };
        let text = std::mem::take(text);
        self.bump();
        if !matches!(self.token, Token::Newline | Token::Semicolon | Token::Eof) {
            return self.fail("the end of the line after the directive");
        }
        let shown = String::from_utf8_lossy(&text).into_owned();
        let called = match word {
            Token::Include => "include",
            Token::Load => "load",
            _ => "namespace",
        };
        self.diagnostics.lint_once(Lint::Extension, place, || {
            format!("`{called}' is a gawk extension")
        });
        match word {
            Token::Include => return Ok(Some(Include { name: shown, span })),
            Token::Load if self.options.sandbox => {
                self.diagnostics.misuse(
                    span,
                    format!("cannot load `{shown}': libraries are not allowed in a sandbox"),
                );
            }
            Token::Load => match Library::from_name(&shown) {
                Some(library) => program.loads.push((library, span)),
                None => {
                    let reason = Library::unknown();
                    self.diagnostics
                        .error(span, format!("cannot load `{shown}': {reason}"));
                }
            },
            _ => match check_namespace(&text) {
                Ok("awk") => self.namespace = None,
                Ok(name) => self.namespace = Some(self.names.intern(name)),
                Err(message) => {
                    self.diagnostics.error(span, message);
                    return Err(Fault);
                }
            },
        }
        Ok(None)
    }
}
