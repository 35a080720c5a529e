# The log script of the SDC 2022 talk: an identifier for every string, in the order of their coming, and how often each came.
{ if (!($0 in id)) id[$0] = ++n; freq[$0]++ }
END { print n; for (s in id) print id[s], s, freq[s] }
