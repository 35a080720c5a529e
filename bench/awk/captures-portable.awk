# captures.awk for an AWK whose match tells no captures: the whole is found, then cut at its own marks.
match($0, /"(GET|POST|PUT) \/api\/v[0-9]+\/[a-z]+\/[0-9]+[^"]*" [0-9]+/) {
    split(substr($0, RSTART + 1, RLENGTH - 1), part, /[ "]+/)
    split(part[2], step, /[\/?]/)
    n[part[1] " " step[4] " " part[4]]++
    numbers += step[5]
}
END { for (what in n) { different++; squares += n[what] * n[what] } printf "%d %.0f %.0f\n", different, squares, numbers }
