#!/bin/bash
# What nearsh does with a filer that has no ssh (alpha, which turns new connections away) and a proxy that sees its folder as /srv/export/home (beta), on
# the client of a rig. Each line that is printed begins with "ok" or "WRONG".
is() { # WHAT, EXPECTED, GOT
    if [[ $2 == "$3" ]]; then echo "ok $1"; else printf 'WRONG %s: expected "%s", got "%s"\n' "$1" "$2" "$3"; fi
}
has() { # WHAT, PART, TEXT
    if [[ $3 == *"$2"* ]]; then echo "ok $1"; else printf 'WRONG %s: no "%s" in "%s"\n' "$1" "$2" "$3"; fi
}
near() { nearsh --offload=always -c "$1"; }
ran() { nearsh stats | grep "^$1 " | grep -vc "(here: "; } # HOST

HOME=$(mktemp -d)
export HOME XDG_CONFIG_HOME=
umount "$NEAR_MNT/beta" # the proxy's own folder is not mounted here
rig refuse alpha
cd "$NEAR_MNT/alpha" || exit
mkdir deep
seq 1 9000 >deep/n

# Without a line there is nobody to run it.
is 'without a proxy' 9000 "$(near 'wc -l <deep/n')"
is 'nothing ran there' 0 "$(ran beta)"
text=$(nearsh doctor; echo "status $?")
has 'doctor says that the filer has no ssh' 'ssh -o BatchMode=yes alpha does not get there' "$text"
has 'and what could be done' "in $HOME/.config/nearsh/config: alpha:/FOLDER via PROXY:/FOLDER" "$text"

mkdir -p "$HOME/.config/nearsh"
config=$HOME/.config/nearsh/config
printf '# By ssh there is but a proxy.\n\nalpha:/srv/export via beta:/srv/export/home # which has all homes\n' >"$config"
while IFS= read -r script; do
    before=$(ran beta)
    expected=$(bash -c "$script" 2>&1; echo "status $?")
    is "$script" "$expected" "$(near "$script" 2>&1; echo "status $?")"
    [[ $(ran beta) -gt $before ]] && echo "ok by the proxy: $script" || echo "WRONG not by the proxy: $script"
done <<'END'
grep 77 deep/n | sort -r | head -3
wc -l deep/n | cat
cd deep && sort -r <n | md5sum
sort -r deep/n >out; cksum <out; rm out
grep x deep/none deep/n
END
text=$(nearsh doctor; echo "status $?")
has 'doctor says what the proxy does' "$NEAR_MNT/alpha: alpha:/srv/export, by fuse.sshfs; commands run on the proxy beta, which has it as /srv/export/home" "$text"
has 'doctor says that it is reached' 'reached by ssh without a password' "$text"
has 'and that all is well' 'status 0' "$text"
[[ $text == *alpha:$'\n'* ]] && echo 'WRONG doctor asks the filer' || echo 'ok doctor does not ask the filer'
has 'explain names the proxy' 'beta: connected' "$(nearsh explain 'sort deep/n')"

# What connects may end before anybody has spoken to it.
said=$(for n in {1..30}; do NEARSH_SSH=true nearsh doctor; done | grep -c '^This machine:')
is 'doctor says so of each connection that ends at once' 30 "$said"

# A proxy's folder that is another one than is mounted is not taken for it.
printf 'alpha:/srv/export via beta:/srv/export/home/deep\n' >"$config"
before=$(ran beta)
is 'by a wrong folder' 9000 "$(near 'wc -l <deep/n')"
is 'it did not run there' "$before" "$(ran beta)"

# Lines that are wrong stop nothing, and are told of where somebody asks.
printf 'alpha:/srv/export via beta\nnonsense\nother:/x via beta:/x\nalpha:/srv/export via beta:/srv/export/home\n' >"$config"
before=$(ran beta)
is 'a script says nothing of wrong lines' '9000 0' "$(near 'wc -l <deep/n; echo $?' 2>&1 | tr '\n' ' ' | sed 's/ $//')"
[[ $(ran beta) -gt $before ]] && echo 'ok what is right counts' || echo 'WRONG what is right does not count'
text=$(nearsh doctor; echo "status $?")
has 'doctor says which line' "$config:1 counts for nothing: \"beta\" is no folder of a machine that ssh could reach
    to do: write PROXY:/FOLDER" "$text"
has 'and of the other' "$config:2 counts for nothing: \"nonsense\" is not known here" "$text"
has 'and what is mounted nowhere' "$config:3: nothing of that is mounted here" "$text"
has 'and that something is wrong' 'status 1' "$text"
has 'explain says so, too' "nearsh explain: $config:2 counts for nothing: \"nonsense\"" "$(nearsh explain 'sort deep/n' 2>&1 >/dev/null)"
is 'and explains all the same' 0 "$(nearsh explain 'sort deep/n' >/dev/null 2>&1; echo $?)"
