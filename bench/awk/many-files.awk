# Something of each of many small files.
FNR == 1 { files++ }
{ words += NF }
END { print files, NR, words }
