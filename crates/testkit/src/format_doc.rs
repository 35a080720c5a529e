//! Reads the byte tables of `docs/format.md`, so that tests can compare them with the constants.

/// A field of a structure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    pub offset: u64,
    pub size: u64,
    pub name: String,
}

/// The rows `| offset | size | NAME | meaning |` between `heading` and the next heading; empty if there is none.
pub fn rows_under(doc: &str, heading: &str) -> Vec<Row> {
    let section = doc
        .lines()
        .skip_while(|line| *line != heading)
        .skip(1)
        .take_while(|line| !line.starts_with('#'));
    section
        .filter_map(|line| {
            let mut cells = line.split('|').map(str::trim).skip(1);
            let (offset, size, name) = (
                cells.next()?.parse().ok()?,
                cells.next()?.parse().ok()?,
                cells.next()?,
            );
            Some(Row {
                offset,
                size,
                name: name.into(),
            })
        })
        .collect()
}
