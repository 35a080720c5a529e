//! The plan: which stretches of which files an operand stands for. The rules are in the header of the folder's file.
//!
//! Invariant: a position is claimed by at most one file, and a file claims at most one position.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::candidate::{Candidate, absolute, beside, is_rotated_name, path_of};
use super::position::{Identity, Position, SAMPLE_BYTES, now, written};
use super::segment::Segment;
use super::{FORGET_SECONDS, Resume};

/// So much the clock of files may be behind that of the system.
const CLOCK_SECONDS: f64 = 0.05;

/// So often a plan is made again while the files change, after so long.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(5);

/// A position whose file is still there is used again after so long, lest it be forgotten.
const REFRESH_SECONDS: f64 = 30.0 * 86_400.0;

/// What to read for an operand.
#[derive(Default)]
pub(super) struct Plan {
    /// Stretches of files, in order.
    pub(super) segments: Vec<Segment>,
    /// Positions whose contents are nowhere.
    pub(super) gone: Vec<u64>,
    /// Positions of nothing, which no file needs any more.
    pub(super) spare: Vec<u64>,
    /// Positions that are to be kept though nothing is read.
    pub(super) kept: Vec<u64>,
    /// Files of which everything is counted, here or in a copy.
    settled: Vec<Identity>,
    /// No file that matters changed while the plan was made.
    is_settled: bool,
    /// The files that the folder was found to have, if it was looked through.
    found: Option<Vec<(Identity, PathBuf)>>,
}

impl Plan {
    fn reads(&self, identity: Identity) -> bool {
        self.segments.iter().any(|s| s.identity == identity)
    }
}

/// The files of a name, and which position each of them claims.
struct Claims {
    files: Vec<Candidate>,
    /// The one that has the name itself.
    own: Option<usize>,
    /// The serial that each file claims.
    serial_of: Vec<Option<u64>>,
    /// Who claims a serial.
    home: HashMap<u64, usize>,
}

impl Claims {
    fn claim(&mut self, serial: u64, file: usize) {
        self.serial_of[file] = Some(serial);
        self.home.insert(serial, file);
    }

    fn is_free(&self, file: usize) -> bool {
        self.serial_of[file].is_none()
    }
}

/// When names were last added to the folder of a file, or taken from it, in seconds since 1970.
fn changed(path: &Path) -> Option<f64> {
    let meta = std::fs::metadata(path.parent()?).ok()?;
    Some(written(&meta))
}

impl Resume {
    /// What to read for an operand.
    ///
    /// # Errors
    /// The system does not tell what a file is.
    pub(super) fn plan(&self, operand: &[u8], file: File) -> std::io::Result<Plan> {
        let path = absolute(path_of(operand));
        let name = path.as_os_str().as_bytes().to_vec();
        let (mut gone, mut found) = (Vec::new(), None);
        let mut tries = 0;
        loop {
            let changed = changed(&path);
            // Where folders keep whole seconds, one that changes now may have the time that it had before.
            let coarse = |at: f64| {
                if at.fract() == 0.0 {
                    2.0
                } else {
                    CLOCK_SECONDS
                }
            };
            let is_quiet = changed.is_some_and(|at| at < now() - coarse(at));
            let own = Candidate::own(path.clone(), file.try_clone()?)?;
            let mut plan = match self.plan_of_rotated(&name, &own)? {
                Some(plan) => plan,
                None => self.plan_of_name(&name, Some(own))?,
            };
            plan.gone.sort_unstable();
            tries += 1;
            // A file that is renamed while its folder is read may be seen under neither name, and one that is renamed then
            // cannot be opened: so either nothing was renamed, or the same files were found twice.
            let is_whole = plan.found.is_none()
                || (is_quiet && changed == self::changed(&path))
                || plan.found == found;
            // In the middle of a rotation files are looked at before and after. A daemon that writes without a pause to a file
            // that was renamed may go on.
            if tries == TRIES || (plan.is_settled && plan.gone == gone && is_whole) {
                return Ok(plan);
            }
            gone = plan.gone;
            found = plan.found;
            std::thread::sleep(PAUSE);
        }
    }

    /// An operand that is a rotated or renamed file of another name has the positions of that one.
    fn plan_of_rotated(&self, name: &[u8], own: &Candidate) -> std::io::Result<Option<Plan>> {
        let is_own = |p: &Position| p.identity == own.identity && own.fits(p);
        if self.known.values().any(|p| p.name == name && is_own(p)) {
            return Ok(None);
        }
        // The longest first: `log.1` may be an operand, too.
        let logs: BTreeSet<&[u8]> = self
            .known
            .values()
            .map(|p| p.name.as_slice())
            .filter(|log| is_rotated_name(name, log))
            .collect();
        for log in logs.into_iter().rev() {
            let path = path_of(log);
            // A pipe would wait for its writer.
            let newest = path.is_file().then(|| File::open(path).ok()).flatten();
            let newest = newest.map(|file| Candidate::own(path.to_path_buf(), file));
            let plan = self.plan_of_name(log, newest.transpose()?)?;
            let (is_settled, found) = (plan.is_settled, plan.found);
            if plan.settled.contains(&own.identity) {
                return Ok(Some(Plan {
                    is_settled,
                    found,
                    ..Plan::default()
                }));
            }
            let mut segments = plan.segments;
            segments.retain(|s| s.identity == own.identity);
            if !segments.is_empty() {
                return Ok(Some(Plan {
                    segments,
                    is_settled,
                    found,
                    ..Plan::default()
                }));
            }
        }
        let position = self
            .known
            .iter()
            .filter(|(_, p)| p.offset > 0 && is_own(p))
            .max_by_key(|(_, p)| p.offset);
        let Some((serial, position)) = position else {
            return Ok(None);
        };
        // Under its old name there is another file: this one was rotated.
        let old = std::fs::metadata(path_of(&position.name)).map(|meta| Identity::of(&meta));
        let rotated = old.as_ref().is_ok_and(|old| *old != own.identity);
        let logical = if old.is_ok() { &position.name } else { name };
        let segment = Segment::new(own, Some(*serial), position, logical, rotated)?;
        Ok(Some(Plan {
            segments: segment.into_iter().collect(),
            is_settled: true,
            ..Plan::default()
        }))
    }

    /// What to read for a name; `own` is the file that has it.
    fn plan_of_name(&self, name: &[u8], own: Option<Candidate>) -> std::io::Result<Plan> {
        let mut plan = Plan::default();
        let since = self.of_name(name).map(|(_, p)| p.since).reduce(f64::min);
        let Some(since) = since else {
            let start = Position::start(now());
            if let Some(own) = own {
                plan.segments
                    .extend(Segment::new(&own, None, &start, name, false)?);
            }
            plan.is_settled = true;
            return Ok(plan);
        };
        let claims = self.claims(name, own);
        let files = claims.files.iter();
        let mut found: Vec<_> = files
            .map(|file| (file.identity, file.path.clone()))
            .collect();
        found.sort_unstable();
        plan.found = Some(found);
        let is_spare = |(serial, p): &(u64, &Position)| {
            p.offset == 0 && !p.finished && !claims.home.contains_key(serial)
        };
        plan.spare = self
            .of_name(name)
            .filter(is_spare)
            .map(|(serial, _)| serial)
            .collect();
        let is_gone = |(serial, p): &(u64, &Position)| {
            p.offset > 0 && !p.finished && !claims.home.contains_key(serial)
        };
        plan.gone = self
            .of_name(name)
            .filter(is_gone)
            .map(|(serial, _)| serial)
            .collect();
        let stale = now() - REFRESH_SECONDS;
        plan.kept.extend(
            claims
                .home
                .keys()
                .filter(|serial| self.known[serial].used < stale),
        );

        // Rotated files, in the order in which they were written; before them what got more after it was read to its end.
        let mut order: Vec<(bool, usize)> = Vec::new();
        for (n, file) in claims.files.iter().enumerate() {
            if claims.own == Some(n) {
                continue;
            }
            match claims.serial_of[n].map(|serial| &self.known[&serial]) {
                Some(p) if p.name != name => {}
                Some(p) if p.finished && file.bytes == p.offset => plan.settled.push(file.identity),
                Some(p) => order.push((!p.finished, n)),
                None => order.extend(
                    self.is_unread(name, since, &claims, n, &mut plan.settled)
                        .then_some((true, n)),
                ),
            }
        }
        let key = |n: usize| (claims.files[n].written, claims.files[n].identity.birth);
        order.sort_by(|(a_new, a), (b_new, b)| {
            let (a, b) = (key(*a), key(*b));
            a_new
                .cmp(b_new)
                .then(a.0.total_cmp(&b.0))
                .then(a.1.cmp(&b.1))
        });
        let rotated = order.into_iter().map(|(_, n)| (n, true));
        let start = Position::start(since);
        for (n, rotated) in rotated.chain(claims.own.map(|n| (n, false))) {
            let file = &claims.files[n];
            let segment = match claims.serial_of[n] {
                Some(serial) => {
                    Segment::new(file, Some(serial), &self.known[&serial], name, rotated)?
                }
                None => {
                    // A copy that goes its own way has the lines up to the position in common with the other.
                    let fork = self.strong_fit(name, file);
                    let serial = match fork {
                        Some(_) => None,
                        None => plan.spare.pop(),
                    };
                    Segment::new(file, serial, fork.unwrap_or(&start), name, rotated)?
                }
            };
            plan.segments.extend(segment);
        }
        plan.is_settled = claims.files.iter().enumerate().all(|(n, file)| {
            let is_own = claims.own == Some(n);
            let is_new = claims.is_free(n) && plan.reads(file.identity);
            !(is_own || is_new) || file.is_same()
        });
        Ok(plan)
    }

    /// The positions of the contents that were read under a name.
    fn of_name<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = (u64, &'a Position)> {
        self.known
            .iter()
            .filter(move |(_, p)| p.name == name)
            .map(|(serial, p)| (*serial, p))
    }

    /// The furthest position of a name of which `file` certainly holds the content.
    fn strong_fit<'a>(&'a self, name: &'a [u8], file: &Candidate) -> Option<&'a Position> {
        self.of_name(name)
            .map(|(_, p)| p)
            .filter(|p| p.is_strong() && file.fits(p))
            .max_by_key(|p| p.offset)
    }

    /// Whether a file that claims no position is one that was rotated since the job began, with lines that are in no other file.
    /// One of which there is nothing to read because it is empty or a copy is added to `settled`.
    fn is_unread(
        &self,
        name: &[u8],
        since: f64,
        claims: &Claims,
        n: usize,
        settled: &mut Vec<Identity>,
    ) -> bool {
        let file = &claims.files[n];
        // Positions are forgotten after a time, and with them that such files were read.
        let oldest = since.max(now() - FORGET_SECONDS) - CLOCK_SECONDS;
        if !file.is_rotated || file.written < oldest {
            return false;
        }
        // A copy may be about to be made: there is time for what has no lines yet.
        if file.bytes == 0 {
            settled.push(file.identity);
            return false;
        }
        let is_copy = |(other_n, other): (usize, &Candidate)| {
            // The operand may have been copied and not truncated yet: it is the one to read. Two short rotated files may be the
            // same by chance.
            let is_own = claims.own == Some(other_n);
            let is_read =
                file.bytes < other.bytes || other_n < n || !claims.is_free(other_n) || is_own;
            let is_likely = is_own || file.bytes > SAMPLE_BYTES;
            other_n != n && is_likely && is_read && file.is_copy_of(other)
        };
        if self.strong_fit(name, file).is_some() || claims.files.iter().enumerate().any(is_copy) {
            settled.push(file.identity);
            return false;
        }
        true
    }

    /// Which file holds the content of which position.
    fn claims(&self, name: &[u8], own: Option<Candidate>) -> Claims {
        let known: HashSet<Identity> = self.of_name(name).map(|(_, p)| p.identity).collect();
        let own_identity = own.as_ref().map(|own| own.identity);
        let mut files = beside(path_of(name), own_identity, |identity| {
            known.contains(&identity)
        });
        let own = own.map(|own| {
            files.push(own);
            files.len() - 1
        });
        let numbers: HashMap<Identity, usize> = files
            .iter()
            .enumerate()
            .map(|(n, file)| (file.identity, n))
            .collect();
        let mut claims = Claims {
            serial_of: vec![None; files.len()],
            files,
            own,
            home: HashMap::new(),
        };
        // The furthest first: a file that holds more is not the one of which less was read.
        let mut positions: Vec<(u64, &Position, Option<usize>)> = self
            .known
            .iter()
            .map(|(serial, p)| (*serial, p, numbers.get(&p.identity).copied()))
            .filter(|(_, p, number)| p.name == name || number.is_some())
            .collect();
        positions.sort_by_key(|(serial, p, number)| {
            (std::cmp::Reverse(p.offset), number.is_none(), *serial)
        });
        // What is certain comes first, and leaves little for the rest to look through.
        for (serial, p, number) in &positions {
            let Some(number) = number.filter(|_| p.is_strong()) else {
                continue;
            };
            if claims.is_free(number) && claims.files[number].fits(p) {
                // A copy of it under the name itself is the one that grows.
                let is_longer = |own: &usize| {
                    claims.is_free(*own)
                        && claims.files[*own].bytes >= claims.files[number].bytes
                        && claims.files[*own].fits(p)
                };
                let home = claims.own.filter(is_longer).unwrap_or(number);
                claims.claim(*serial, home);
            }
        }
        for (serial, p, number) in &positions {
            if claims.home.contains_key(serial) {
                continue;
            }
            let by_number = number.filter(|n| {
                claims.is_free(*n)
                    && (p.offset > 0
                        || p.identity.birth != 0
                        || claims.own == Some(*n)
                        || claims.files[*n].is_rotated)
                    && claims.files[*n].fits(p)
            });
            let home = by_number.map(|n| claims.unless_copied(n, p)).or_else(|| {
                let is_content = p.name == name && p.offset > 0;
                is_content.then(|| claims.by_content(p)).flatten()
            });
            if let Some(home) = home {
                claims.claim(*serial, home);
            }
        }
        claims
    }
}

impl Claims {
    /// File `n`, which has the number of a position, or the file under the name itself if that is a copy of it: that one grows.
    fn unless_copied(&self, n: usize, p: &Position) -> usize {
        let is_copied = |own: &usize| {
            let (file, own_file) = (&self.files[n], &self.files[*own]);
            *own != n
                && self.is_free(*own)
                && file.bytes > SAMPLE_BYTES
                && own_file.fits(p)
                && file.is_copy_of(own_file)
        };
        self.own.filter(is_copied).unwrap_or(n)
    }

    /// The file that holds the content of a position whose own file does not.
    fn by_content(&self, p: &Position) -> Option<usize> {
        let holds = |n: &usize| self.is_free(*n) && self.files[*n].fits(p);
        let rotated = (0..self.files.len())
            .filter(|n| self.own != Some(*n) && self.files[*n].is_rotated)
            .filter(holds);
        let own = self.own.filter(holds);
        if p.is_strong() {
            let longest = rotated.max_by_key(|n| self.files[*n].bytes);
            return match (own, longest) {
                (Some(own), Some(longest)) if self.files[own].bytes < self.files[longest].bytes => {
                    Some(longest)
                }
                (own, longest) => own.or(longest),
            };
        }
        if p.finished {
            // It may be back, out of its compressed form, with the time that it had. What was written later is another one.
            return rotated
                .filter(|n| self.files[*n].bytes == p.offset && self.files[*n].written <= p.used)
                .min();
        }
        let by_time =
            |a: &usize, b: &usize| self.files[*a].written.total_cmp(&self.files[*b].written);
        rotated.min_by(by_time).or(own)
    }
}

#[cfg(test)]
mod tests;
