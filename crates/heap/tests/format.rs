//! `docs/format.md` and the constants say the same.

use heap::layout::{CLASSES, HEAP_VERSION, chunk, header, page, table, zone};
use testkit::format_doc::{Row, rows_under};

macro_rules! fields {
    ($module:ident: $($name:ident $size:expr),* $(,)?) => {
        vec![$(Row { offset: $module::$name, size: $size, name: stringify!($name).into() }),*]
    };
}

#[test]
fn the_documents_tables_are_the_constants() {
    let doc = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format.md"))
        .unwrap();
    assert_eq!(
        rows_under(&doc, "### heap header"),
        fields!(header: MAGIC 8, VERSION 4, ZONE_COUNT 4, ROOTS 8, HASH_SEED 8, PARTIAL_ZONES 4, FREE_RUNS 4, FREE_ZONES 8, LIVE_BLOCKS 8, LIVE_BYTES 8, CLASS_HEADS 4 * CLASSES.len() as u64, PROGRAM_HEADS 4 * CLASSES.len() as u64)
    );
    assert_eq!(
        rows_under(&doc, "### zone"),
        fields!(zone: KIND 4, NEXT 4, PREV 4, SPAN 4, FREE_PAGES 8, PRESENT 4, DISCARDED 4, BYTES 8, BLOCK 8)
    );
    assert_eq!(
        rows_under(&doc, "### page"),
        fields!(page: KIND 1, CLASS 1, FREE_COUNT 2, RUN_PAGES 2, NEXT 4, PREV 4, FREE_BLOCKS 32)
    );
    assert_eq!(
        rows_under(&doc, "### table"),
        fields!(table: MAGIC 4, DEPTH 1, INDEX_BITS 1, LAST_USED 2, COUNT 8, INDEX 8, FIRST 8, LAST 8, LAST_CAPACITY 2, RUN_OPEN 2, RUN_COUNT 4, RUN_FIRST 8, RUN_CHUNKS 8)
    );
    assert_eq!(
        rows_under(&doc, "### chunk"),
        fields!(chunk: NEXT 8, PREV 8, CAPACITY 2, USED 2, LIVE 2, IN_RUN 2, TABLE 8)
    );
    assert!(doc.contains(&format!("| 8 | 4 | VERSION | {HEAP_VERSION} |")));
    let beyond: Vec<String> = CLASSES
        .iter()
        .filter(|&&c| c > 128)
        .map(u16::to_string)
        .collect();
    let text = doc.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains(&beyond.join(" ")),
        "size classes: {}",
        beyond.join(" ")
    );
}
