//! `docs/format.md` and the constants say the same.

use region::layout::{frame, journal_header, note, sums_header, superblock};
use testkit::format_doc::{Row, rows_under};

fn doc() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format.md")).unwrap()
}

fn rows(fields: &[(usize, usize, &str)]) -> Vec<Row> {
    fields
        .iter()
        .map(|&(offset, size, name)| Row {
            offset: offset as u64,
            size: size as u64,
            name: name.into(),
        })
        .collect()
}

macro_rules! fields {
    ($module:ident: $($name:ident $size:literal),* $(,)?) => { rows(&[$(($module::$name, $size, stringify!($name))),*]) };
}

#[test]
fn the_documents_tables_are_the_constants() {
    let doc = doc();
    assert_eq!(
        rows_under(&doc, "### superblock"),
        fields!(superblock: MAGIC 8, VERSION 4, FLAGS 4, UUID 16, GENERATION 8, SEQ 8, END 8, LIMIT 8, HOME 8, CREATED_S 8, RESERVED 40, CHECKSUM 8)
    );
    assert_eq!(
        rows_under(&doc, "### journal header"),
        fields!(journal_header: MAGIC 8, VERSION 4, FLAGS 4, UUID 16, RESERVED 8, CHECKSUM 8)
    );
    assert_eq!(
        rows_under(&doc, "### note"),
        fields!(note: BOOT 16, GENERATION 8, APPLIED_SEQ 8, TAIL 8, CHAIN 8, END 8, TIME_S 8, RESERVED 8, CHECKSUM 8)
    );
    assert_eq!(
        rows_under(&doc, "### frame"),
        fields!(frame: MAGIC 4, RUN_COUNT 4, SEQ 8, GENERATION 8, DURABLE_SEQ 8, PAYLOAD_BYTES 8, OLD_END 8, NEW_END 8, TIME_S 8, CHAIN 8, FRESH_COUNT 4, PAGE_COUNT 4, NONCE 8, CHECKSUM 8)
    );
    assert_eq!(
        rows_under(&doc, "### sums header"),
        fields!(sums_header: MAGIC 8, VERSION 4, FLAGS 4, UUID 16, GENERATION 8, RESERVED 8, CHECKSUM 8)
    );
}

#[test]
fn the_documents_seeds_and_places_are_the_constants() {
    use region::layout as at;
    let doc = doc();
    for seed in [
        at::SEED_SUPERBLOCK,
        at::SEED_JOURNAL,
        at::SEED_SALT,
        at::SEED_PAGE,
    ] {
        assert!(doc.contains(&format!("{seed:#x}")), "{seed:#x}");
    }
    assert!(doc.contains(&format!("  {}  superblock B", at::SUPERBLOCK_OFFSETS[1])));
    assert!(doc.contains(&format!("  {}  heap header", at::DATA_START)));
    assert!(doc.contains(&format!("  {}  note", at::NOTE_OFFSET)));
    assert!(doc.contains(&format!("  {}  frames", at::FRAMES_START)));
    assert!(doc.contains(&format!("made {} bytes long", at::JOURNAL_BYTES_MIN)));
    assert!(doc.contains(&format!("Format version {}.", at::FORMAT_VERSION)));
}
