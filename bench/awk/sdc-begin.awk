# What sdc.awk needs to go on from what it printed the last time, which is in the file "summary".
BEGIN {
    getline n < summary
    while ((getline < summary) > 0) { id[$2] = $1; freq[$2] = $3 }
}
