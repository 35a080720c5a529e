//! What the user and the machine's administrator have said: `~/.config/nearsh/config` and `/etc/nearsh/config`.
//!
//! ```text
//! filer:/export/home   via proxy:/mnt/home     # a folder that is mounted here from filer is reached on proxy, where it is /mnt/home
//! //filer/share        via proxy:/srv/share    # the same of a CIFS share
//! fast:/scratch        via slurm               # nodes of Slurm see it under the name that it has here
//! engine               slurm                   # so do they see all that is mounted here, but for sshfs
//! slurm-options        --partition=short --time=30
//! slurm-keep           300                     # for so many seconds a node is kept when nothing runs on it
//! slurm-nodes          4                       # lanes may be on so many of them
//! ```
//!
//! Words have blanks between them; `#` at the beginning of a word begins a comment, and `\040` is a blank, as in fstab(5).
//!
//! The invariant: a line that is not understood counts for nothing, and is kept together with what is wrong about it.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use crate::mounts::{Mount, unescaped};
use crate::slurm::{self, Placement};

/// The environment variable that names the engine.
pub const ENGINE: &str = "NEARSH_ENGINE";

/// The administrator's file.
const SYSTEM: &str = "/etc/nearsh/config";

/// More nodes than this are not asked for.
const NODES_MAX: u32 = 64;
/// How long a node is kept when nothing runs on it, unless that is said.
const KEEP: Duration = Duration::from_secs(60);

/// By what agents are started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Engine {
    /// By ssh, on the machines whose folders are mounted here.
    #[default]
    Ssh,
    /// By Slurm, on nodes that have the same mounts.
    Slurm,
}

impl Engine {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Ssh => "ssh",
            Engine::Slurm => "slurm",
        }
    }

    /// By its name.
    pub fn read(name: &str) -> Option<Engine> {
        match name {
            "ssh" => Some(Engine::Ssh),
            "slurm" => Some(Engine::Slurm),
            _ => None,
        }
    }
}

/// What is mounted from another machine: a folder of it, or a share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Served {
    /// Who serves it; perhaps with a user before it.
    pub host: String,
    /// Which of its folders; of a share its name and the folder in it.
    pub folder: PathBuf,
    /// Whether it is a share, in whose names small letters and capitals are the same.
    pub is_share: bool,
}

impl Served {
    /// Reads `HOST:/FOLDER`, with brackets around an IPv6 address, or `//HOST/SHARE`.
    pub fn read(source: &[u8]) -> Option<Served> {
        if let Some(share) = source.strip_prefix(b"//") {
            let slash = share.iter().position(|&byte| byte == b'/')?;
            let (host, folder) = share.split_at(slash);
            return Some(Served {
                host: name(host)?,
                folder: path(folder)?,
                is_share: true,
            });
        }
        let (host, folder) = host_and_folder(source)?;
        Some(Served {
            host: name(host)?,
            folder: path(folder)?,
            is_share: false,
        })
    }

    /// What has to be added to this folder to get to another one, if that is the same or in it.
    fn to(&self, other: &Served) -> Option<PathBuf> {
        let same = |one: &[u8], two: &[u8]| {
            if self.is_share {
                one.eq_ignore_ascii_case(two)
            } else {
                one == two
            }
        };
        // sshfs may name a user; the line need not.
        let bare = other.host.split_once('@').map_or("", |(_, host)| host);
        let of_host =
            [other.host.as_str(), bare].map(|host| same(self.host.as_bytes(), host.as_bytes()));
        if self.is_share != other.is_share || !of_host.contains(&true) {
            return None;
        }
        let mut rest = other.folder.components();
        for part in self.folder.components() {
            let next = rest.next()?;
            if !same(part.as_os_str().as_bytes(), next.as_os_str().as_bytes()) {
                return None;
            }
        }
        Some(rest.as_path().to_path_buf())
    }
}

/// `HOST:FOLDER`, split.
pub(crate) fn host_and_folder(source: &[u8]) -> Option<(&[u8], &[u8])> {
    if let Some(rest) = source.strip_prefix(b"[") {
        let end = rest.windows(2).position(|two| two == b"]:")?;
        return Some((&rest[..end], &rest[end + 2..]));
    }
    let colon = source.iter().position(|&byte| byte == b':')?;
    Some((&source[..colon], &source[colon + 1..]))
}

/// A host's name that no program takes for an option.
fn name(host: &[u8]) -> Option<String> {
    let host = std::str::from_utf8(host).ok()?;
    let is_name = !host.is_empty() && !host.starts_with('-') && !host.contains('/');
    is_name.then(|| host.to_owned())
}

/// An absolute path without "..".
fn path(folder: &[u8]) -> Option<PathBuf> {
    let folder = PathBuf::from(OsString::from_vec(folder.to_vec()));
    let goes_up = folder.components().any(|part| part == Component::ParentDir);
    (folder.is_absolute() && !goes_up).then_some(folder)
}

/// Where what is served by one machine is to be reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Via {
    /// On another machine, by ssh, in this folder.
    Host(String, PathBuf),
    /// On nodes of Slurm, under the name that it has here.
    Slurm,
}

/// A line with `via`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proxy {
    /// What it is about.
    pub served: Served,
    /// Where that is reached.
    pub via: Via,
    /// The line, for people.
    pub at: Line,
}

/// A line of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Which file.
    pub file: PathBuf,
    /// Which line of it, from 1.
    pub number: usize,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.number)
    }
}

/// What is wrong about a line.
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// The file cannot be read.
    Unreadable(String),
    /// The line is not UTF-8.
    NoText,
    /// It begins with this, which is neither a word that is known nor followed by `via`.
    Unknown(String),
    /// What stands before `via` is no folder of another machine and no share.
    Source(String),
    /// What stands behind `via` is neither `HOST:/FOLDER` nor `slurm`.
    Target(String),
    /// There are words behind what is complete.
    More(String),
    /// It is said in an earlier line already: which, and what.
    Twice(usize, String),
    /// There is no engine of this name.
    Engine(String),
    /// This is no option of srun's.
    Option(String),
    /// This is no number of seconds.
    Seconds(String),
    /// This is no number of nodes.
    Nodes(String),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Unreadable(why) => write!(f, "the file cannot be read: {why}"),
            Wrong::NoText => write!(f, "it is not UTF-8"),
            Wrong::Unknown(word) => {
                write!(f, "\"{word}\" is not known here, and no \"via\" follows it")
            }
            Wrong::Source(word) => write!(f, "\"{word}\" is no folder of another machine"),
            Wrong::Target(word) if word.is_empty() => write!(f, "nothing stands behind \"via\""),
            Wrong::Target(word) => write!(
                f,
                "\"{word}\" is no folder of a machine that ssh could reach"
            ),
            Wrong::More(word) => write!(f, "\"{word}\" and what follows is too much"),
            Wrong::Twice(line, what) => {
                write!(f, "{what} is said in line {line} already, which counts")
            }
            Wrong::Engine(word) if word.is_empty() => write!(f, "no engine is named"),
            Wrong::Engine(word) => write!(f, "there is no engine \"{word}\""),
            Wrong::Option(word) if word.is_empty() => write!(f, "no option is named"),
            Wrong::Option(word) => write!(f, "\"{word}\" is no option"),
            Wrong::Seconds(word) => write!(f, "\"{word}\" is no number of seconds"),
            Wrong::Nodes(word) => write!(f, "\"{word}\" is no number of nodes"),
        }
    }
}

impl Wrong {
    /// What can be done about it.
    pub fn to_do(&self) -> &'static str {
        match self {
            Wrong::Unreadable(_) => "let this user read it, or remove it",
            Wrong::NoText => "write it again",
            Wrong::Unknown(_) => {
                "write HOST:/FOLDER via PROXY:/FOLDER, //HOST/SHARE via PROXY:/FOLDER, engine, slurm-options, slurm-keep or slurm-nodes; a comment begins with #"
            }
            Wrong::Source(_) => {
                "write it as mount lists it, HOST:/FOLDER or //HOST/SHARE, with \\040 for a blank"
            }
            Wrong::Target(_) => {
                "write PROXY:/FOLDER, the whole path that the folder has on the machine PROXY, or slurm"
            }
            Wrong::More(_) => {
                "write one thing in a line, \\040 for a blank in a name, and # before a comment"
            }
            Wrong::Twice(..) => "remove one of the two lines",
            Wrong::Engine(_) => "write engine ssh or engine slurm",
            Wrong::Option(_) => {
                "write options as srun takes them, such as slurm-options --partition=short"
            }
            Wrong::Seconds(_) => "write a whole number, such as slurm-keep 300",
            Wrong::Nodes(_) => "write a whole number from 1 to 64, such as slurm-nodes 4",
        }
    }
}

/// All that was said.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Config {
    /// Lines with `via`, the user's own first.
    pub proxies: Vec<Proxy>,
    /// The engine, if one is named; the environment's and the command line's is above a file's.
    pub engine: Option<Engine>,
    /// What srun is called with besides, the administrator's options first: so the user's count.
    pub slurm_options: Vec<String>,
    /// How long a node is kept when nothing runs on it.
    pub slurm_keep: Option<Duration>,
    /// On how many nodes at most lanes are run.
    pub slurm_nodes: Option<u32>,
    /// Where agents are placed if it is Slurm that does it.
    pub placement: Placement,
    /// Lines that count for nothing, and why.
    pub wrong: Vec<(Line, Wrong)>,
}

/// What is in a file. Nobody waits for who writes into a pipe.
fn read_file(file: &Path) -> std::io::Result<Vec<u8>> {
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is no file"));
    }
    std::fs::read(file)
}

impl Config {
    /// What holds for this process; `engine` is what its command line says.
    pub fn of_this_process(engine: Option<Engine>) -> Config {
        let mut config = Config::default();
        for file in user_file().into_iter().chain([PathBuf::from(SYSTEM)]) {
            match read_file(&file) {
                Ok(text) => config.add(&file, &text),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    let line = Line { file, number: 1 };
                    let wrong = Wrong::Unreadable(error.to_string());
                    config.wrong.push((line, wrong));
                }
            }
        }
        let named = std::env::var(ENGINE).ok();
        let named = named.and_then(|name| Engine::read(&name));
        config.engine = engine.or(named).or(config.engine);
        config.placement = Placement::of_environment();
        config
    }

    /// Adds what a file says; what was said before is above it.
    pub fn add(&mut self, file: &Path, text: &[u8]) {
        let mut own = Config::default();
        let (mut engine, mut keep, mut nodes) = (0, 0, 0);
        for (number, line) in (1..).zip(text.split(|&byte| byte == b'\n')) {
            let at = Line {
                file: file.to_path_buf(),
                number,
            };
            let Ok(text) = std::str::from_utf8(line) else {
                own.wrong.push((at, Wrong::NoText));
                continue;
            };
            let words = text.split_whitespace();
            let words: Vec<&str> = words.take_while(|word| !word.starts_with('#')).collect();
            let read = match words.as_slice() {
                [] => Ok(()),
                [source, "via", target @ ..] => own.proxy(source, target, &at),
                ["engine", name @ ..] => once("the engine", engine, name).and_then(|name| {
                    own.engine = Some(Engine::read(name).ok_or(Wrong::Engine(name.into()))?);
                    engine = number;
                    Ok(())
                }),
                ["slurm-keep", time @ ..] => once("slurm-keep", keep, time).and_then(|time| {
                    let seconds = time.parse().map_err(|_| Wrong::Seconds(time.into()))?;
                    own.slurm_keep = Some(Duration::from_secs(seconds));
                    keep = number;
                    Ok(())
                }),
                ["slurm-nodes", count @ ..] => {
                    once("slurm-nodes", nodes, count).and_then(|count| {
                        let read = count
                            .parse()
                            .ok()
                            .filter(|count| (1..=NODES_MAX).contains(count));
                        own.slurm_nodes = Some(read.ok_or(Wrong::Nodes(count.into()))?);
                        nodes = number;
                        Ok(())
                    })
                }
                ["slurm-options", options @ ..] => match options.first().unwrap_or(&"") {
                    option if option.len() > 1 && option.starts_with('-') => {
                        let plain = |option: &&str| {
                            String::from_utf8(unescaped(option.as_bytes())).unwrap_or_default()
                        };
                        own.slurm_options.extend(options.iter().map(plain));
                        Ok(())
                    }
                    other => Err(Wrong::Option((*other).into())),
                },
                [word, ..] => Err(Wrong::Unknown((*word).into())),
            };
            if let Err(wrong) = read {
                own.wrong.push((at, wrong));
            }
        }
        self.proxies.append(&mut own.proxies);
        self.engine = self.engine.or(own.engine);
        own.slurm_options.append(&mut self.slurm_options);
        self.slurm_options = own.slurm_options;
        self.slurm_keep = self.slurm_keep.or(own.slurm_keep);
        self.slurm_nodes = self.slurm_nodes.or(own.slurm_nodes);
        self.wrong.append(&mut own.wrong);
    }

    fn proxy(&mut self, source: &str, target: &[&str], at: &Line) -> Result<(), Wrong> {
        let served = Served::read(&unescaped(source.as_bytes()));
        let served = served.ok_or_else(|| Wrong::Source(source.into()))?;
        let target = match target {
            [] => "",
            [target] => target,
            [_, more, ..] => return Err(Wrong::More((*more).into())),
        };
        let via = if target == "slurm" {
            Via::Slurm
        } else {
            let bytes = unescaped(target.as_bytes());
            let found = Served::read(&bytes).filter(|found| !found.is_share);
            let found = found.ok_or_else(|| Wrong::Target(target.into()))?;
            Via::Host(found.host, found.folder)
        };
        let same = |proxy: &&Proxy| {
            let both = [proxy.served.to(&served), served.to(&proxy.served)];
            both.iter()
                .all(|rest| rest.as_deref() == Some(Path::new("")))
        };
        if let Some(earlier) = self.proxies.iter().find(same) {
            return Err(Wrong::Twice(earlier.at.number, source.into()));
        }
        self.proxies.push(Proxy {
            served,
            via,
            at: at.clone(),
        });
        Ok(())
    }

    /// Where something that is mounted is reached by a line, and by which: the one that says most, and of two that say the same the user's.
    pub fn via(&self, served: &Served) -> Option<(Via, &Proxy)> {
        let mut best: Option<(&Proxy, PathBuf)> = None;
        for proxy in &self.proxies {
            let Some(rest) = proxy.served.to(served) else {
                continue;
            };
            let depth = |proxy: &Proxy| proxy.served.folder.components().count();
            if best
                .as_ref()
                .is_none_or(|(known, _)| depth(proxy) > depth(known))
            {
                best = Some((proxy, rest));
            }
        }
        let (proxy, rest) = best?;
        let via = match &proxy.via {
            Via::Host(host, folder) if rest.as_os_str().is_empty() => {
                Via::Host(host.clone(), folder.clone())
            }
            Via::Host(host, folder) => Via::Host(host.clone(), folder.join(rest)),
            Via::Slurm => Via::Slurm,
        };
        Some((via, proxy))
    }

    /// Lines with `via` that are about nothing that is mounted.
    pub fn unused(&self, mounts: &[Mount]) -> Vec<&Proxy> {
        let sources = mounts.iter().flat_map(|mount| &mount.stands_for);
        let served: Vec<Served> = sources
            .filter_map(|source| Served::read(source.as_bytes()))
            .collect();
        let is_used = |proxy: &&Proxy| served.iter().any(|one| proxy.served.to(one).is_some());
        let proxies = self.proxies.iter();
        proxies.filter(|proxy| !is_used(proxy)).collect()
    }

    /// On how many nodes lanes may be run: on all of the allocation that there is, or else on one.
    pub fn nodes(&self) -> u32 {
        let of_job = self.placement.job.and_then(|_| slurm::nodes());
        match (of_job, self.slurm_nodes) {
            (Some(all), Some(most)) => all.min(most),
            (Some(all), None) => all.clamp(1, NODES_MAX),
            (None, most) => most.unwrap_or(1),
        }
    }

    /// How long a node is kept when nothing runs on it.
    pub fn keep(&self) -> Duration {
        self.slurm_keep.unwrap_or(KEEP)
    }
}

/// The user's own file (XDG Base Directory Specification).
pub fn user_file() -> Option<PathBuf> {
    let folder = |name: &str| {
        let value = std::env::var_os(name).map(PathBuf::from);
        value.filter(|path| path.is_absolute())
    };
    let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
    Some(config.join("nearsh/config"))
}

/// The only word of these, none being an empty one, if `what` they say was not said in a `line` before.
fn once<'a>(what: &str, line: usize, words: &[&'a str]) -> Result<&'a str, Wrong> {
    match words {
        _ if line > 0 => Err(Wrong::Twice(line, what.into())),
        [] => Ok(""),
        [word] => Ok(word),
        [_, more, ..] => Err(Wrong::More((*more).into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Config {
        let mut config = Config::default();
        config.add(Path::new("/home/me/.config/nearsh/config"), text.as_bytes());
        config
    }

    /// Where a source is reached, as text.
    fn reached(config: &Config, source: &str) -> String {
        match config.via(&Served::read(source.as_bytes()).unwrap()) {
            Some((Via::Host(host, folder), _)) => format!("{host}:{}", folder.display()),
            Some((Via::Slurm, _)) => "slurm".into(),
            None => "-".into(),
        }
    }

    #[test]
    fn a_line_says_where_what_a_filer_serves_is_reached() {
        let config = read(
            "# near the filer\n\nfiler:/export/home via\tme@proxy:/mnt/home # by NFS there\n\
             filer:/export/home/deep via other:/deep\n//filer/Share via proxy:/srv/share\n\
             filer:/with\\040blank via proxy:/with\\040blank\n[fe80::1]:/x via [fe80::2]:/y\nfast:/scratch via slurm\n",
        );
        assert!(config.wrong.is_empty(), "{:?}", config.wrong);
        for (source, expected) in [
            ("filer:/export/home", "me@proxy:/mnt/home"),
            ("filer:/export/home/", "me@proxy:/mnt/home"),
            ("filer:/export/home/me/x", "me@proxy:/mnt/home/me/x"),
            ("filer:/export/homes", "-"),
            ("filer:/export", "-"),
            ("other:/export/home", "-"),
            ("filer:/export/home/deep/x", "other:/deep/x"),
            // The names of shares are the same in small letters; the names of folders are not.
            ("//FILER/share/sub", "proxy:/srv/share/sub"),
            ("Filer:/export/home", "-"),
            ("//filer/other", "-"),
            ("filer:/with blank", "proxy:/with blank"),
            ("[fe80::1]:/x", "fe80::2:/y"),
            ("me@fast:/scratch/1", "slurm"),
        ] {
            assert_eq!(reached(&config, source), expected, "{source}");
        }
    }

    #[test]
    fn a_line_that_is_not_understood_counts_for_nothing_and_says_why() {
        let text = "filer:/export vai proxy:/mnt\nfiler via proxy:/mnt\nfiler:/a via proxy:mnt\nfiler:/b via\n\
             filer:/c via proxy:/c and more\nfiler:/d via -oProxyCommand=x:/d\nfiler:/e via //proxy/e\n\
             engine pbs\nengine slurm\nslurm-options short\nslurm-options\nslurm-keep soon\nfiler:/f via proxy:/../f\n\
             filer:/g via proxy:/g\nfiler:/g/ via other:/g\nengine\nslurm-nodes 0\n";
        let config = read(text);
        let said: Vec<String> = (config.wrong.iter())
            .map(|(line, wrong)| format!("{}: {wrong}", line.number))
            .collect();
        let expected = [
            "1: \"filer:/export\" is not known here, and no \"via\" follows it",
            "2: \"filer\" is no folder of another machine",
            "3: \"proxy:mnt\" is no folder of a machine that ssh could reach",
            "4: nothing stands behind \"via\"",
            "5: \"and\" and what follows is too much",
            "6: \"-oProxyCommand=x:/d\" is no folder of a machine that ssh could reach",
            "7: \"//proxy/e\" is no folder of a machine that ssh could reach",
            "8: there is no engine \"pbs\"",
            "10: \"short\" is no option",
            "11: no option is named",
            "12: \"soon\" is no number of seconds",
            "13: \"proxy:/../f\" is no folder of a machine that ssh could reach",
            "15: filer:/g/ is said in line 14 already, which counts",
            "16: the engine is said in line 9 already, which counts",
            "17: \"0\" is no number of nodes",
        ];
        assert_eq!(said, expected);
        // What is right in such a file counts.
        assert_eq!(reached(&config, "filer:/g"), "proxy:/g");
        assert_eq!(reached(&config, "filer:/c"), "-");
        assert_eq!(config.engine, Some(Engine::Slurm));
        let mut config = Config::default();
        config.add(Path::new("/x"), b"\xff\nengine slurm\n");
        assert_eq!(config.wrong[0].1, Wrong::NoText);
        assert_eq!(config.engine, Some(Engine::Slurm));
        assert_eq!(config.wrong[0].0.to_string(), "/x:1");
    }

    #[test]
    fn what_the_user_says_is_above_what_the_administrator_says() {
        let mut config = read(
            "engine ssh\nslurm-options --time=5\nslurm-keep 9\nslurm-nodes 3\nfiler:/a via mine:/a\n",
        );
        config.add(
            Path::new("/etc/nearsh/config"),
            b"engine slurm\nslurm-options --time=60 -p short\nslurm-options --comment=a\\040b\nslurm-keep 5\n\
              filer:/a via theirs:/a\nfiler:/b via theirs:/b\n",
        );
        assert!(config.wrong.is_empty());
        assert_eq!(config.engine, Some(Engine::Ssh));
        assert_eq!(config.keep(), Duration::from_secs(9));
        assert_eq!(config.nodes(), 3);
        let options = ["--time=60", "-p", "short", "--comment=a b", "--time=5"];
        assert_eq!(config.slurm_options, options);
        assert_eq!(reached(&config, "filer:/a"), "mine:/a");
        assert_eq!(reached(&config, "filer:/b"), "theirs:/b");
    }
}
