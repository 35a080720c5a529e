//! Conversions as locales write them, and positions of arguments. Plain conversions are compared with gawk's in
//! `tests/printf_beside_gawk.rs`.

use super::*;

fn written(format: &str, numbers: Numbers, args: &[Arg<'_>]) -> Result<String, FormatError> {
    let mut out = Vec::new();
    let convfmt = Format::parse(b"%.6g");
    Format::parse_in(format.as_bytes(), numbers)
        .write(Charset::Utf8, &convfmt, args, &mut out)
        .map(|()| String::from_utf8_lossy(&out).into_owned())
}

#[test]
fn numbers_are_written_as_the_locale_writes_them() {
    for (locale, format, n, expected) in [
        ("en_US.UTF-8", "%'d", 1234567.0, "1,234,567"),
        ("en_US.UTF-8", "%'d", -123.0, "-123"),
        ("en_US.UTF-8", "%'12d|", 1234567.0, "   1,234,567|"),
        ("en_US.UTF-8", "%'.10d", 1234567.0, "01,234,567"),
        ("en_US.UTF-8", "%'.2f", 1234567.891, "1,234,567.89"),
        ("en_US.UTF-8", "%'u", 1e6, "1,000,000"),
        ("en_US.UTF-8", "%'x", 1e6, "f4240"),
        ("C.UTF-8", "%'d", 1234567.0, "1234567"),
        ("de_DE.UTF-8", "%'.2f", -1234567.891, "-1.234.567,89"),
        (
            "de_DE.UTF-8",
            "%1$'e %1$a %1$f",
            1.5,
            "1,500000e+00 0x1.8p+0 1.500000",
        ),
        ("fr_FR.UTF-8", "%'11d|", 12345.0, "   12\u{202f}345|"),
        ("fr_FR.UTF-8", "%'9.1f|", 12345.5, " 12\u{202f}345,5|"),
        ("fr_FR.UTF-8", "%'010.1f|", -12345.5, "-012\u{202f}345,5|"),
    ] {
        let got = written(format, Numbers::of_locale(locale), &[Arg::Num(n)]);
        assert_eq!(got.as_deref(), Ok(expected), "{locale} {format}");
    }
}

#[test]
fn the_point_is_the_locales_where_it_is_wanted() {
    let german = Numbers::of_locale("de_DE.UTF-8").everywhere();
    for (format, n, expected) in [
        ("%1$.2f %1$g %1$d", 2.5, "2,50 2,5 2"),
        ("%a", 1.5, "0x1,8p+0"),
        ("%s", 2.5, "2.5"), // written by CONVFMT, which is C's here
    ] {
        let got = written(format, german, &[Arg::Num(n)]);
        assert_eq!(got.as_deref(), Ok(expected), "{format}");
    }
    for (convfmt, expected) in [("%.6g", "2,5"), ("%.1f", "2,5"), ("%s", "2,5"), ("%d", "2")] {
        let mut out = Vec::new();
        number_to_text(2.5, &Format::parse_in(convfmt.as_bytes(), german), &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{convfmt}");
    }
    let pashto = Numbers::of_locale("ps_AF.UTF-8").everywhere();
    let got = written("%1$6.2f|%1$06.2f", pashto, &[Arg::Num(1.5)]);
    assert_eq!(got.as_deref(), Ok("  1٫50|001٫50"));
}

#[test]
fn positions_and_sequence_do_not_mix_but_for_widths() {
    let args = [Arg::Num(5.0), Arg::Num(10.0)];
    let write = |format: &str| written(format, Numbers::default(), &args);
    assert_eq!(write("%2$d %1$d").as_deref(), Ok("10 5"));
    assert_eq!(write("%1$*2$d|").as_deref(), Ok("         5|"));
    assert_eq!(write("%*2$d|").as_deref(), Ok("         5|"));
    for mixed in ["%2$d %d", "%d %2$d", "%1$*d"] {
        assert!(
            matches!(write(mixed), Err(FormatError::MixedPositions { .. })),
            "{mixed}"
        );
    }
    for zero in ["%0$d", "%$d"] {
        assert!(
            matches!(write(zero), Err(FormatError::ZeroPosition { .. })),
            "{zero}"
        );
    }
    assert!(matches!(
        write("%3$d"),
        Err(FormatError::NotEnoughArguments { needed: 3, .. })
    ));
}
