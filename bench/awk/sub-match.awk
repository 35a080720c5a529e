# Takes web server lines apart with sub and match.
{
    sub(/^10\.[0-9]+\./, "net ")
    if (match($0, /\/api\/v[0-9]+\/[a-z]+/)) n[substr($0, RSTART, RLENGTH)]++
    if (match($0, /page=[0-9]+/)) pages += substr($0, RSTART + 5, RLENGTH - 5)
    if (sub(/HTTP\/1\.1/, "HTTP/1.x")) old++
    size += length($0)
}
END { for (path in n) squares += n[path] * n[path]; printf "%.0f %d %d %d\n", squares, pages, old, size }
