#!/bin/bash
# What the scripts of cases/ are too small for, on the client of a rig with sshfs as people have it: connections that are cut in the middle of much,
# what is seen here of files that were written there, and an agent that is restricted. Each line that is printed begins with "ok" or "WRONG".
is() { # WHAT, EXPECTED, GOT
    if [[ $2 == "$3" ]]; then echo "ok $1"; else echo "WRONG $1: expected \"$2\", got \"$3\""; fi
}
near() { nearsh --offload=always -c "$1"; }

cd "$NEAR_MNT/beta" || exit
seq 1 300000 >big
sorted=$(sort big | md5sum)
near 'wc -l <big' >/dev/null
cuts=0
for i in 1 2 3 4 5 6; do
    rig heal beta
    sleep 0.6
    rig slow beta 40mbit
    rig cut beta $((i * 300000))
    is "cut after $i x 300 kB, a command that waits for all" "$sorted 0 0" "$(near 'cat big | sort; echo "${PIPESTATUS[@]}" >/dev/stderr' 2>"/tmp/status.$$" | md5sum) $(<"/tmp/status.$$")"
    is "cut after $i x 300 kB, input by the shell" "$sorted" "$(near 'cat <big | sort' | md5sum)"
done
rig heal beta
sleep 1
cuts=$(nearsh stats | grep -c 'was cut')
[[ $cuts -gt 0 ]] && echo "ok some of them were cut" || echo "WRONG none of them was cut"

cd "$NEAR_MNT/alpha" || exit
seq 1 1000 >n
near 'wc -l <n' >/dev/null
for i in 1 2 3; do
    is "a file written there has its length here" "1 7 3893" "$(near 'grep 7 n >out; [ -s out ] && echo 1; read -r x <out; echo "$x"; cat n >out; dd if=out 2>/dev/null | wc -c; rm out' | tr '\n' ' ' | sed 's/ $//')"
    is "one that was removed there is gone" "gone" "$(near 'cp n m; rm m; [ -e m ] || echo gone')"
    is "one that was changed in place is read anew" "1000" "$(near 'cp n m; sort -rn -o m m; head -1 m')"
done
nearsh stats | grep -q 'alpha.* cat$' && echo "ok they ran there" || echo "WRONG nothing ran there"

home=$(mktemp -d)
: >"$home/.jq"
echo '{"a":1}' >j
is "what a file in the home folder may change runs here" "nearsh: line 1: jq: here: ~/.jq may change what it does" \
    "$(HOME=$home nearsh --offload=always --debug=list -c 'jq -c .a j' 2>&1 >/dev/null)"
rm -r "$home" j

# One host begins at once, the other is asleep: what comes from the first must wait until the helpers know that it will come.
cd "$NEAR_MNT" || exit
seq 1 600000 >alpha/one
seq 600001 1200000 >beta/two
for host in alpha beta; do rig delay "$host" 20ms; done
pkill -f 'nearsh @broker' # the next one measures anew
for i in 1 2; do nearsh -c 'wc -l alpha/one beta/two' >/dev/null; done
nearsh -c 'cat alpha/one beta/two | grep 77777' >/dev/null
for command in 'cat alpha/one beta/two | grep 77777' 'grep -h 77777 alpha/one beta/two' 'cat alpha/one beta/two | grep 77777 | cut -c 2-'; do
    rig in beta pkill -STOP -f 'agent --stdio'
    { sleep 0.7 && rig in beta pkill -CONT -f 'agent --stdio'; } &
    is "a host that begins late: $command" "$(bash -c "$command" | md5sum) 0" "$(nearsh -c "$command; printf ' %s' \$? >/dev/stderr" 2>"/tmp/status.$$" | md5sum)$(<"/tmp/status.$$")"
    wait
done
is "they ran on both" "3 0" "$(nearsh stats | tail -n 3 | grep -c 'alpha, beta\|beta, alpha') $(nearsh stats | tail -n 3 | grep -c 'here:')"
rm alpha/one beta/two

# What several write into one file that a shell has open for them, and what cannot be read or written where outputs are put together.
cd "$NEAR_MNT/alpha" || exit
seq 1 300000 >many
seq 300001 600000 >"$NEAR_MNT/beta/more"
both="$NEAR_MNT/alpha/many $NEAR_MNT/beta/more"
for command in '{ grep 77777 many & grep 88888 many & wait; } >log' \
    'for i in 1 2 3; do grep -c 77777 many & done >log; wait' \
    'for i in 1 2; do grep -c 77777 many; echo "$i"; done >log'; do
    for shell in 'bash -c' 'nearsh --offload=always -c' 'nearsh -c'; do
        $shell "$command" bash 2>/dev/null
        is "$shell, one file for several: $command" "${wanted:=$(sed 's/^bash: line/nearsh: line/' log | sort | md5sum)}" "$(sort log | md5sum)"
    done
    wanted=''
done
rig slow alpha 100mbit
rig slow beta 300mbit
is "no room for a part that waits" "0 4088894" "$(TMPDIR=/missing nearsh -c "x=\$(cat $both | grep -v zzz); echo \$? \${#x}")"
rig heal alpha
rig heal beta
for command in 'comm - many </tmp | wc -l; echo "${PIPESTATUS[@]}"' 'grep -c -f - many </tmp' 'sort -m many - </tmp | wc -l'; do
    is "a folder is no input: $command" "$(bash -c "$command" 2>&1)" "$(nearsh -c "$command" 2>&1 | sed 's/^nearsh/bash/')"
done
is "who ignores SIGPIPE is told" "$(bash -c 'trap "" PIPE; sort many | (read -r x; echo $x); echo "${PIPESTATUS[@]}"' 2>&1)" \
    "$(near 'trap "" PIPE; sort many | (read -r x; echo $x); echo "${PIPESTATUS[@]}"' 2>&1)"
timeout 20 nearsh -c "for i in 1 2 3 4 5 6; do cat $both | grep -c k\$i & done"
is "a shell that goes before its commands" "0" "$(sleep 3 && pgrep -fc 'grep -c k[1-6]')"
settings=$(mktemp -d)
mkdir "$settings/nearsh" && mkfifo "$settings/nearsh/config"
is "settings that are no file" "3" "$(XDG_CONFIG_HOME=$settings timeout 10 nearsh -c 'grep -c 77777 many')"
rm -r many "$NEAR_MNT/beta/more" log "$settings"
