# Lines taken apart by the program itself.
{
    count += split($0, part, "\t")
    split(part[6], day, "-")
    sum += part[4]
    n[day[2]]++
}
END { for (month in n) squares += n[month] * n[month]; printf "%.0f %.0f %.0f\n", count, sum, squares }
