//! examples/lua: an interpreter that knows nothing of us but an allocator, and keeps its state. The script `x` builds it and names it in `PERDURE_LUA`; without that
//! there is nothing to test.

use crate::build::{good, run};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use testkit::rng::Rng;

#[expect(clippy::print_stderr, reason = "who runs the tests should know")]
fn lua() -> Option<PathBuf> {
    let named = std::env::var_os("PERDURE_LUA").map(PathBuf::from);
    if named.is_none() {
        eprintln!("left out: PERDURE_LUA names no plua (./x lua)");
    }
    named
}

struct State<'a> {
    lua: &'a Path,
    folder: &'a Path,
}

impl State<'_> {
    fn command(&self, text: &str) -> Command {
        let script = self.folder.join("script.lua");
        std::fs::write(&script, text).unwrap();
        let mut command = Command::new(self.lua);
        command.arg(self.folder.join("l.heap")).arg(script);
        command
    }

    fn says(&self, text: &str) -> String {
        good(&mut self.command(text))
    }
}

#[test]
fn values_functions_and_coroutines_are_there_next_time() {
    let Some(lua) = lua() else { return };
    let folder = tempfile::tempdir().unwrap();
    let state = State {
        lua: &lua,
        folder: folder.path(),
    };
    state.says("stock = { nails = 400 }; s = setmetatable({}, {__index = function(_, k) return k .. '!' end})");
    state.says("function sell(what) stock[what] = stock[what] - 1 return stock[what] end");
    assert_eq!(state.says("print(sell 'nails', s.hello)"), "399\thello!\n");
    let refused = run(&mut state.command("sell 'nails' error 'no'"));
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("nothing was committed"));
    assert_eq!(state.says("print(stock.nails)"), "399\n");
    state.says("co = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end) co()");
    assert_eq!(state.says("print(co())"), "2\n");
    assert_eq!(state.says("print(co()) io.write('io\\n')"), "3\nio\n");
    state.says("t = {} for i = 1, 100000 do t[i] = { i, 'number ' .. i } end");
    assert_eq!(
        state.says("print(#t, t[777][2]) t = nil collectgarbage()"),
        "100000\tnumber 777\n"
    );
    assert_eq!(
        state.says("print(t, arg[0] ~= nil, io.open)"),
        "nil\ttrue\tnil\n"
    );
}

#[test]
fn a_killed_script_leaves_its_last_commit() {
    const LOOP: &str = "n = n or 0; list = list or {}; byname = byname or {}
        while true do
            n = n + 1
            list[#list + 1] = n
            byname['name ' .. n] = n
            if n % 50 == 0 then byname = {} list = {} collectgarbage() for i = 1, n do list[i] = i byname['name ' .. i] = i end end
            perdure.commit()
            print(n) io.stdout:flush()
        end";
    const LOOK: &str = "assert(#list == n) for i = 1, n do assert(list[i] == i and byname['name ' .. i] == i) end print(n)";
    let Some(lua) = lua() else { return };
    let folder = tempfile::tempdir().unwrap();
    let state = State {
        lua: &lua,
        folder: folder.path(),
    };
    let mut rng = Rng::new(Rng::seed_from_env());
    for _ in 0..testkit::effort("PERDURE_KILLS", 20) {
        let mut child: Child = state.command(LOOP).stdout(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(20_000 + rng.below(60_000)));
        child.kill().unwrap();
        let told = BufReader::new(child.stdout.take().unwrap()).lines();
        let last = told.map_while(Result::ok).last();
        child.wait().unwrap();
        let Some(last) = last else { continue };
        let found: u64 = state.says(LOOK).trim().parse().unwrap();
        let last: u64 = last.parse().unwrap();
        assert!(found == last || found == last + 1, "{found} after {last}");
    }
}

/// The calls that it was in are in the state each time; they must not add up.
#[test]
fn a_state_is_killed_in_the_middle_of_calls_any_number_of_times() {
    const DIES: &str =
        "n = (n or 0) + 1 pcall(function() perdure.commit() os.execute('kill -9 $PPID') end)";
    let Some(lua) = lua() else { return };
    let folder = tempfile::tempdir().unwrap();
    let state = State {
        lua: &lua,
        folder: folder.path(),
    };
    for _ in 0..120 {
        assert!(!state.command(DIES).status().unwrap().success());
    }
    assert_eq!(state.says("print(n)"), "120\n");
}
