//! A text that is one pipeline, taken apart: the words of each command as they stand there, its assignments and redirections.
//!
//! The invariant: whatever of it a shell is given to expand runs nothing and changes nothing, for words that could are refused: command
//! and process substitutions, arithmetic (a variable's value may hold a subscript with a command), and all but the plain forms of `${…}`.

use brush_parser::ast::{
    Command, CommandPrefixOrSuffixItem, IoFileRedirectKind, IoFileRedirectTarget, IoRedirect,
    SeparatorOperator, SimpleCommand, Word,
};

use super::{Language, latin1, options};

/// One command of the pipeline.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Simple {
    /// Variables set before it: a name, and the text of its value.
    pub assignments: Vec<(String, Vec<u8>)>,
    /// Its words; not empty.
    pub words: Vec<Vec<u8>>,
    /// In their order.
    pub redirections: Vec<Redirection>,
}

/// What a descriptor becomes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Redirection {
    /// Which: 0, 1 or 2.
    pub descriptor: u32,
    /// What.
    pub to: Target,
}

/// What a descriptor is made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// A file to be read, by its word.
    Read(Vec<u8>),
    /// A file to be written anew.
    Write(Vec<u8>),
    /// A file to be written at its end.
    Append(Vec<u8>),
    /// What another one is.
    Same(u32),
    /// Text of the pipeline itself: `<<<` or `<<`.
    Text,
}

/// Takes a text apart.
///
/// # Errors
/// Why that cannot be done, for people.
pub fn line(text: &[u8], language: Language) -> Result<Vec<Simple>, String> {
    let characters = latin1(text);
    let program = brush_parser::Parser::new(characters.as_bytes(), &options(language))
        .parse_program()
        .map_err(|error| format!("its syntax was not understood: {error}"))?;
    let only_one = "one pipeline can be explained at a time";
    let list = match program.complete_commands.as_slice() {
        [] => return Err("there is no command in it".into()),
        [list] => list,
        _ => return Err(only_one.into()),
    };
    let [item] = list.0.as_slice() else {
        return Err(only_one.into());
    };
    if !item.0.additional.is_empty() {
        return Err(only_one.into());
    }
    if matches!(item.1, SeparatorOperator::Async) {
        return Err("\"&\" is not explained: leave it out".into());
    }
    let commands = item.0.first.seq.iter().map(|command| match command {
        Command::Simple(simple) => self::simple(simple),
        _ => Err(
            "only plain commands are explained, no loops, conditions, groups and functions".into(),
        ),
    });
    commands.collect()
}

fn simple(command: &SimpleCommand) -> Result<Simple, String> {
    let mut simple = Simple::default();
    let prefix = command.prefix.iter().flat_map(|prefix| &prefix.0);
    let suffix = command.suffix.iter().flat_map(|suffix| &suffix.0);
    for item in prefix {
        match item {
            CommandPrefixOrSuffixItem::AssignmentWord(_, word) => {
                let bytes = checked(word)?;
                let equals = bytes.iter().position(|&byte| byte == b'=');
                let (name, value) = bytes.split_at(equals.unwrap_or(bytes.len()));
                let name = String::from_utf8_lossy(name).into_owned();
                if !is_name(&name) || value.is_empty() {
                    return Err(format!("an assignment that is not plain: {}", word.value));
                }
                simple.assignments.push((name, value[1..].to_vec()));
            }
            item => add(&mut simple, item)?,
        }
    }
    let name = command.word_or_name.as_ref();
    let name = name.ok_or("a command without a name")?;
    simple.words.push(checked(name)?);
    for item in suffix {
        add(&mut simple, item)?;
    }
    Ok(simple)
}

fn add(simple: &mut Simple, item: &CommandPrefixOrSuffixItem) -> Result<(), String> {
    match item {
        CommandPrefixOrSuffixItem::Word(word)
        | CommandPrefixOrSuffixItem::AssignmentWord(_, word) => simple.words.push(checked(word)?),
        CommandPrefixOrSuffixItem::IoRedirect(redirect) => {
            redirection(redirect, &mut simple.redirections)?;
        }
        CommandPrefixOrSuffixItem::ProcessSubstitution(..) => return Err(substitution()),
    }
    Ok(())
}

fn substitution() -> String {
    "it has a substitution of a command or a process, which would have to be run: explain that on its own".into()
}

fn redirection(redirect: &IoRedirect, all: &mut Vec<Redirection>) -> Result<(), String> {
    let unknown = || Err(format!("a redirection that is not explained: {redirect}"));
    let mut push = |descriptor, to| all.push(Redirection { descriptor, to });
    match redirect {
        IoRedirect::OutputAndError(word, append) => {
            let word = checked(word)?;
            push(
                1,
                if *append {
                    Target::Append(word)
                } else {
                    Target::Write(word)
                },
            );
            push(2, Target::Same(1));
        }
        IoRedirect::HereDocument(None | Some(0), _) => push(0, Target::Text),
        IoRedirect::HereString(None | Some(0), word) => {
            checked(word)?;
            push(0, Target::Text);
        }
        IoRedirect::File(descriptor, kind, IoFileRedirectTarget::Filename(word)) => {
            let word = checked(word)?;
            let (usual, to) = match kind {
                IoFileRedirectKind::Read => (0, Target::Read(word)),
                IoFileRedirectKind::Write | IoFileRedirectKind::Clobber => (1, Target::Write(word)),
                IoFileRedirectKind::Append => (1, Target::Append(word)),
                _ => return unknown(),
            };
            let descriptor = descriptor.map_or(usual, i32::cast_unsigned);
            let is_input = matches!(to, Target::Read(_));
            if descriptor > 2 || is_input != (descriptor == 0) {
                return unknown();
            }
            push(descriptor, to);
        }
        IoRedirect::File(descriptor, IoFileRedirectKind::DuplicateOutput, target) => {
            let other = match target {
                IoFileRedirectTarget::Fd(other) => other.cast_unsigned(),
                IoFileRedirectTarget::Duplicate(word) => word.value.parse().unwrap_or(u32::MAX),
                _ => return unknown(),
            };
            let descriptor = descriptor.map_or(1, i32::cast_unsigned);
            if !matches!((descriptor, other), (1 | 2, 1 | 2)) {
                return unknown();
            }
            push(descriptor, Target::Same(other));
        }
        IoRedirect::File(_, _, IoFileRedirectTarget::ProcessSubstitution(..)) => {
            return Err(substitution());
        }
        _ => return unknown(),
    }
    Ok(())
}

/// The bytes of a word, if a shell may expand it.
fn checked(word: &Word) -> Result<Vec<u8>, String> {
    let bytes: Option<Vec<u8>> = word.value.chars().map(|c| u8::try_from(c).ok()).collect();
    let bytes = bytes.ok_or_else(|| format!("a word that is not understood: {}", word.value))?;
    match is_harmless(&bytes) {
        Ok(()) => Ok(bytes),
        Err(Harm::Runs) => Err(substitution()),
        Err(Harm::Unclear) => Err(format!("a word that is not explained: {}", word.value)),
    }
}

#[derive(PartialEq, Eq, Debug)]
enum Harm {
    /// It runs commands.
    Runs,
    /// It may change something, or its quotes are not what they seem.
    Unclear,
}

/// Goes through the quotes of a word.
fn is_harmless(word: &[u8]) -> Result<(), Harm> {
    let mut rest = word;
    let mut in_double = false;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        match byte {
            b'\\' => {
                let (_, behind) = rest.split_first().ok_or(Harm::Unclear)?;
                rest = behind;
            }
            b'"' => in_double = !in_double,
            b'\'' if !in_double => rest = behind_quote(rest, false)?,
            b'`' => return Err(Harm::Runs),
            b'$' => match rest.first() {
                Some(b'\'') if !in_double => rest = behind_quote(&rest[1..], true)?,
                Some(b'(') if rest.starts_with(b"((") => return Err(Harm::Unclear),
                Some(b'(') => return Err(Harm::Runs),
                Some(b'[') => return Err(Harm::Unclear),
                Some(b'{') => rest = behind_brace(&rest[1..])?,
                _ => {}
            },
            b'<' | b'>' if !in_double && rest.first() == Some(&b'(') => return Err(Harm::Runs),
            b';' | b'&' | b'|' | b'<' | b'>' | b'(' | b')' | b'\n' if !in_double => {
                return Err(Harm::Unclear);
            }
            _ => {}
        }
    }
    if in_double {
        Err(Harm::Unclear)
    } else {
        Ok(())
    }
}

/// What is behind a single quote's end.
fn behind_quote(mut rest: &[u8], has_escapes: bool) -> Result<&[u8], Harm> {
    loop {
        let (&byte, behind) = rest.split_first().ok_or(Harm::Unclear)?;
        rest = behind;
        match byte {
            b'\'' => return Ok(rest),
            b'\\' if has_escapes => rest = rest.get(1..).ok_or(Harm::Unclear)?,
            _ => {}
        }
    }
}

/// What is behind a `${NAME}`, or one that has a plain text for what is not set, or cuts one off.
fn behind_brace(rest: &[u8]) -> Result<&[u8], Harm> {
    let end = rest.iter().position(|&byte| byte == b'}');
    let end = end.ok_or(Harm::Unclear)?;
    let (inside, behind) = rest.split_at(end);
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let name = inside.iter().position(|byte| !is_letter(byte));
    let (name, operation) = inside.split_at(name.unwrap_or(inside.len()));
    let operations: [&[u8]; 6] = [b":-", b"-", b":+", b"+", b"#", b"%"];
    let is_plain = operation.is_empty() || operations.iter().any(|o| operation.starts_with(o));
    if operation.contains(&b'`') || operation.windows(2).any(|two| two == b"$(") {
        return Err(Harm::Runs);
    }
    let has_more = operation.iter().any(|byte| b"$`'\"\\{".contains(byte));
    if name.is_empty() || !is_plain || has_more {
        return Err(Harm::Unclear);
    }
    Ok(&behind[1..])
}

fn is_name(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.chars().all(is_letter) && text.starts_with(|c: char| !c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Simple>, String> {
        line(text.as_bytes(), Language::Bash)
    }

    #[test]
    fn a_pipeline_is_taken_apart() {
        let text = "LC_ALL=C sort -k '2 3' < \"$f\" 2>&1 >>b |& grep \"a b\"*.log 'x$(y)`z`' &>o";
        let stages = read(text).unwrap();
        let to = |descriptor, to| Redirection { descriptor, to };
        assert_eq!(stages[0].assignments, [("LC_ALL".into(), b"C".to_vec())]);
        assert_eq!(stages[0].words, [&b"sort"[..], b"-k", b"'2 3'"]);
        let expected = [
            to(0, Target::Read(b"\"$f\"".to_vec())),
            to(2, Target::Same(1)),
            to(1, Target::Append(b"b".to_vec())),
            to(2, Target::Same(1)),
        ];
        assert_eq!(stages[0].redirections, expected);
        assert_eq!(
            stages[1].words,
            [&b"grep"[..], b"\"a b\"*.log", b"'x$(y)`z`'"]
        );
        let expected = [to(1, Target::Write(b"o".to_vec())), to(2, Target::Same(1))];
        assert_eq!(stages[1].redirections, expected);
        let text = "wc -l <<<\"${HOME}/x${y:-z}\"";
        assert_eq!(read(text).unwrap()[0].redirections, [to(0, Target::Text)]);
    }

    #[test]
    fn what_would_run_something_is_refused() {
        for text in [
            "grep $(hostname) f",
            "grep \"a`b`\" f",
            "grep x <(y)",
            "sort < <(y)",
            "sort >$(x)",
            "grep \"$(x)\"",
            "X=$(y) sort",
            "grep ${x:-$(y)}",
            "sort <<<$(y)",
        ] {
            let why = read(text).unwrap_err();
            assert!(why.contains("substitution"), "{text}: {why}");
        }
        for text in ["a; b", "a && b", "a\nb", "a || b"] {
            let why = read(text).unwrap_err();
            assert!(why.contains("one pipeline"), "{text}: {why}");
        }
        for text in [
            "",
            "grep $((x))",
            "grep $[x]",
            "grep ${x:=1}",
            "grep ${!x}",
            "grep ${x@P}",
            "grep ${x[0]}",
            "grep ${x:1}",
            "grep \"${x:-\"'\"}$(y)\"",
            "a &",
            "(a)",
            "while a; do b; done",
            "x=1",
            "x[1]=2 a",
            "x+=2 a",
            "a 3<f",
            "a <&-",
            "a <>f",
            "a 'x",
        ] {
            assert!(read(text).is_err(), "{text}: {:?}", read(text));
        }
    }
}
