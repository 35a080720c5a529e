# A report: text to the left, numbers to the right, fractions, hexadecimal.
BEGIN { for (i = 1; i <= n; i++) printf "%-12s|%8d|%10.3f|%05x|%s\n", "row " i, i * 7, i / 8, i % 65536, "end" }
