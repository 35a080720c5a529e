# A file read by the program itself.
BEGIN {
    while ((getline line < file) > 0) { count++; size += length(line) }
    print count, size
}
