# Method, kind of thing, its number and the status of each request to the API.
match($0, /"(GET|POST|PUT) \/api\/v[0-9]+\/([a-z]+)\/([0-9]+)[^"]*" ([0-9]+)/, part) {
    n[part[1] " " part[2] " " part[4]]++
    numbers += part[3]
}
END { for (what in n) { different++; squares += n[what] * n[what] } printf "%d %.0f %.0f\n", different, squares, numbers }
