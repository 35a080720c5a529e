//! Commands that run other commands: what such a call means as a whole.
//!
//! `nice grep x f` means what `grep x f` does. `find -exec` and `xargs` mean what they do themselves, and that the commands inside read files which
//! nobody has named yet.
//!
//! The invariant: a call has a meaning only if all commands in it have one; and a command that is given files which are not named in the call
//! reads them, whatever they are and however many, and leaves nothing behind.

use crate::annotation::{
    Annotation, Appended, Call, Effect, Folder, Given, Inner, Kind, Language, Names, Surroundings,
    Volume,
};
use crate::program;

/// An environment: names and values.
pub type Environment = Vec<(Vec<u8>, Vec<u8>)>;

/// A call with all commands in it.
#[derive(Clone, Debug)]
pub struct Nest<'a> {
    /// What it means.
    pub call: Call<'a>,
    /// The commands, from the outermost.
    pub commands: Vec<Command<'a>>,
    /// Words before which a variable may be put for the commands behind, which are not to have the time zone (TZ) of those before.
    pub zones: Vec<usize>,
}

/// One command of a call.
#[derive(Clone, Debug)]
pub struct Command<'a> {
    /// The word that names it.
    pub word: usize,
    /// What is known of it.
    pub annotation: &'a Annotation,
    /// What it is started with.
    pub environment: Environment,
}

/// Where annotations are found by the names of commands.
pub type Book<'b, 'a> = &'b dyn Fn(&str) -> Option<&'a Annotation>;

/// More commands than this are not looked for in each other.
const DEPTH: usize = 8;
/// What stands for a file that has no name yet.
const FILE: &[u8] = b"{}";

/// What a call means, with all that it runs. `words` begin with the command's name.
///
/// # Errors
/// Why it cannot be told, for people.
pub fn nest<'a>(
    book: Book<'_, 'a>,
    words: &[Vec<u8>],
    environment: &Environment,
) -> Result<Nest<'a>, String> {
    one(book, words, environment, 0)
}

fn one<'a>(
    book: Book<'_, 'a>,
    words: &[Vec<u8>],
    environment: &Environment,
    depth: usize,
) -> Result<Nest<'a>, String> {
    let name = words
        .first()
        .and_then(|word| std::str::from_utf8(word).ok());
    let name = name.ok_or("its name is no text")?;
    let annotation = book(name).ok_or_else(|| match depth {
        0 => "there is no annotation of it".to_owned(),
        _ => format!("there is no annotation of {name}"),
    })?;
    let strict = environment
        .iter()
        .any(|(name, _)| name == b"POSIXLY_CORRECT");
    let call = (annotation.call(words, strict)).map_err(|misfit| match depth {
        0 => misfit.to_string(),
        _ => format!("{name}: {misfit}"),
    })?;
    let nest = Nest {
        call,
        commands: vec![Command {
            word: 0,
            annotation,
            environment: environment.clone(),
        }],
        zones: Vec::new(),
    };
    if nest.call.inner.is_empty() {
        return Ok(nest);
    }
    if depth >= DEPTH {
        return Err("it runs commands that run commands".into());
    }
    // How long it takes is another question elsewhere.
    if annotation.is("time") {
        return Err("it tells how long another command takes here".into());
    }
    if nest.call.inner[0].stands || nest.call.of.appends.is_some() {
        given(book, words, nest, depth)
    } else {
        prefix(book, words, nest, depth)
    }
}

/// A command that becomes another one, or waits for it.
fn prefix<'a>(
    book: Book<'_, 'a>,
    words: &[Vec<u8>],
    outer: Nest<'a>,
    depth: usize,
) -> Result<Nest<'a>, String> {
    let call = &outer.call;
    let first = call.inner[0].words.start;
    if !call.files.is_empty() || !call.programs.is_empty() || call.stdin {
        return Err("it runs another command".into());
    }
    let (environment, takes_zone) = changed(call, words, &outer.commands[0].environment)?;
    let mut nest = one(book, &words[first..], &environment, depth + 1)?.behind(first);
    let effect = nest.call.of.effect.max(call.of.effect);
    if effect != nest.call.of.effect {
        nest.call.of.to_mut().effect = effect;
    }
    if takes_zone {
        nest.zones
            .push(call.variables.first().copied().unwrap_or(first));
    }
    nest.commands.splice(0..0, outer.commands);
    Ok(nest)
}

/// The environment of a command inside a call, and whether it lacks the time zone that this one had, or might have had.
fn changed(
    call: &Call<'_>,
    words: &[Vec<u8>],
    before: &Environment,
) -> Result<(Environment, bool), String> {
    let is_empty = call.of.environment == Surroundings::Empty;
    let mut environment = if is_empty { Vec::new() } else { before.clone() };
    let mut takes_zone = is_empty;
    for &(word, from) in &call.no_variables {
        let name = &words[word][from..];
        takes_zone |= name == b"TZ";
        environment.retain(|(known, _)| known != name);
    }
    for &word in &call.variables {
        let equals = words[word].iter().position(|&byte| byte == b'=');
        let (name, value) = words[word].split_at(equals.unwrap_or(words[word].len()));
        // What these mean is another thing on another machine.
        if matches!(name, b"PATH" | b"TMPDIR") || name.starts_with(b"LD_") {
            let name = String::from_utf8_lossy(name);
            return Err(format!("it sets {name}, which may name files"));
        }
        takes_zone &= name != b"TZ";
        environment.retain(|(known, _)| known != name);
        environment.push((name.to_vec(), value[1..].to_vec()));
    }
    Ok((environment, takes_zone))
}

/// A command that runs others on files which it finds, or is told of.
fn given<'a>(
    book: Book<'_, 'a>,
    words: &[Vec<u8>],
    mut outer: Nest<'a>,
    depth: usize,
) -> Result<Nest<'a>, String> {
    let mut inner = std::mem::take(&mut outer.call.inner);
    // Each name in the place of a word, instead of many behind all.
    let mut texts = outer.call.texts.iter();
    if let Some(&(_, word, from)) = texts.find(|(option, ..)| *option == "-I") {
        if &words[word][from..] != FILE {
            return Err("names stand for other words than {}".into());
        }
        inner.iter_mut().for_each(|inner| inner.stands = true);
    }
    outer.call.given = match outer.call.of.appends {
        None => Given::Found,
        Some(Appended::Words) => Given::Words,
        Some(Appended::Zeros) => Given::Zeros,
    };
    {
        let of = outer.call.of.to_mut();
        of.lines = None;
        of.apart = None;
        of.names = Names::Always;
        // Where there are several, the one that prints the most is not known.
        of.volume = if inner.len() > 1 {
            Volume::Same
        } else {
            of.volume
        };
    }
    let alone = inner.len() == 1;
    for command in inner {
        let nest = on_files(book, words, &outer, &command, depth)?;
        let first = command.words.start;
        let nest = nest.behind(first);
        let of = outer.call.of.to_mut();
        if alone {
            of.volume = nest.call.of.volume;
        }
        for shown in &nest.call.of.shows {
            if !of.shows.contains(shown) {
                of.shows.push(*shown);
            }
        }
        let is_named = |word: usize| words.get(word).is_some_and(|word| word != FILE);
        let named = nest.call.files.iter().filter(|file| is_named(file.word));
        // The same everywhere.
        let named = named.filter(|file| file.name(words) != b"/dev/null");
        outer.call.files.extend(named.cloned());
        let mut given = nest.call.files.iter().filter(|file| !is_named(file.word));
        outer.call.goes_below |= given.any(|file| file.kind == Kind::Tree);
        outer.call.runs.push(nest.call.at);
        outer.commands.extend(nest.commands);
        outer.zones.extend(nest.zones);
    }
    outer.call.files.sort_by_key(|file| (file.word, file.from));
    Ok(outer)
}

/// A command inside a call, on one file, if it means the same for any files.
fn on_files<'a>(
    book: Book<'_, 'a>,
    words: &[Vec<u8>],
    outer: &Nest<'a>,
    inner: &Inner,
    depth: usize,
) -> Result<Nest<'a>, String> {
    let name = || String::from_utf8_lossy(&words[inner.words.start]).into_owned();
    let told = |why: &str| format!("{}: {why}", name());
    let own = &words[inner.words.clone()];
    let has_part = |word: &Vec<u8>| word.windows(FILE.len()).any(|part| part == FILE);
    let is_part = |word: &Vec<u8>| word != FILE && has_part(word);
    if own.iter().any(is_part) || !inner.stands && own.iter().any(has_part) {
        return Err(told("a name of a file is a part of a word"));
    }
    let call = &outer.call;
    // Without any name xargs runs its command, too, unless it is told not to.
    let least = usize::from(inner.stands || call.options.contains(&"-r"));
    let most = if inner.stands && !inner.many { 1 } else { 3 };
    let mut one_file = None;
    for count in least..=most {
        let mut on = own.to_vec();
        if inner.many {
            on.pop();
        }
        if inner.many || !inner.stands {
            on.extend(std::iter::repeat_n(FILE.to_vec(), count));
        }
        let nest = one(book, &on, &outer.commands[0].environment, depth + 1)?;
        reads_files(&nest.call, &on, count > 0).map_err(|why| told(&why))?;
        if count == 1 {
            one_file = Some(nest);
        }
    }
    let nest = one_file.ok_or_else(|| told("it is given no files"))?;
    // A name with `=` in it is none to awk.
    let may_assign = call.given != Given::Found
        || (call.files.iter()).any(|file| file.name(words).contains(&b'='));
    if nest.call.of.program == Some(Language::Awk) && may_assign {
        return Err(told("a name may be an assignment"));
    }
    Ok(nest)
}

/// Whether a call does nothing but read the files that it is given, and others that it names.
fn reads_files(call: &Call<'_>, words: &[Vec<u8>], is_given: bool) -> Result<(), String> {
    if call.given != Given::Nothing {
        return Err("it runs another command".into());
    }
    if call.of.effect != Effect::Pure {
        return Err("it leaves something behind".into());
    }
    if call.stdin && is_given {
        return Err("it reads standard input".into());
    }
    if call.reads_folder || call.of.folder == Folder::Writes {
        return Err("it looks at its folder".into());
    }
    let is_read = |word: usize| {
        let mut files = call.files.iter();
        files.any(|file| {
            file.word == word && file.from == 0 && matches!(file.kind, Kind::Input | Kind::Tree)
        })
    };
    for (word, text) in words.iter().enumerate() {
        if text == FILE && !is_read(word) {
            return Err("the name of a file stands where none is read".into());
        }
    }
    let is_other = |kind: Kind| !matches!(kind, Kind::Input | Kind::Tree | Kind::Scratch);
    if call.files.iter().any(|file| is_other(file.kind)) {
        return Err("it writes files".into());
    }
    let Some(language) = call.of.program else {
        return Ok(());
    };
    let texts = call.programs.iter().map(|file| {
        let is_text = file.kind == Kind::Program;
        is_text.then(|| file.name(words).to_vec())
    });
    let texts: Vec<_> = texts.collect();
    match program::read(language, words, call, &texts).stays {
        Some(why) => Err(why),
        None => Ok(()),
    }
}

impl Nest<'_> {
    /// The same with so many words before it.
    fn behind(mut self, count: usize) -> Self {
        let call = &mut self.call;
        for file in call.files.iter_mut().chain(&mut call.programs) {
            file.word += count;
        }
        let words = (call.operands.iter_mut()).chain(&mut call.runs);
        for word in words.chain(&mut call.variables).chain(&mut self.zones) {
            *word += count;
        }
        for (_, word, _) in &mut call.texts {
            *word += count;
        }
        for (word, _) in &mut call.no_variables {
            *word += count;
        }
        call.at += count;
        for command in &mut self.commands {
            command.word += count;
        }
        self
    }
}
