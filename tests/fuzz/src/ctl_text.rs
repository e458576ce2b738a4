//! Settings of PMDK's libraries: any text is a list of names and values, up to the first query that is none.

use lode_pmdk::{CtlQuery, ctl_queries, ctl_text_of_file, ctl_words};

/// Reads the bytes as a variable, and as a file.
pub fn run(data: &[u8]) {
    check(data);
    let text = ctl_text_of_file(data);
    assert!(text.len() <= data.len() && !text.iter().any(u8::is_ascii_whitespace));
    check(&text);
    // What is left has neither comments nor lines.
    assert_eq!(ctl_text_of_file(&text), text);
}

fn check(text: &[u8]) {
    let mut found: Vec<CtlQuery<'_>> = Vec::new();
    let mut is_at_end = false;
    for query in ctl_queries(text) {
        assert!(!is_at_end, "a query after a fault");
        match query {
            Ok(query) => found.push(query),
            Err(error) => {
                is_at_end = true;
                assert!(!error.query.is_empty() && error.to_string().starts_with("failed to parse query "));
            }
        }
    }
    for CtlQuery { name, value } in &found {
        assert!(!name.is_empty() && !value.is_empty());
        assert!(![*name, *value].concat().iter().any(|byte| [b'=', b';'].contains(byte)));
        check_values(&CtlQuery { name, value });
        assert!(ctl_words(name, b'.').all(|word| !word.is_empty() && !word.contains(&b'.')));
    }
    // Written anew, it reads the same.
    let line = |query: &CtlQuery<'_>| [query.name, b"=", query.value, b";"].concat();
    let written: Vec<u8> = found.iter().flat_map(line).collect();
    let again: Vec<_> = ctl_queries(&written).collect::<Result<_, _>>().unwrap_or_default();
    assert_eq!(again, found);
}

/// The values of libpmemobj: numbers, and classes of allocations. A class reads the same when it is written anew.
fn check_values(query: &CtlQuery<'_>) {
    let number = query.integer();
    let Some(class) = query.class() else { return };
    assert_eq!(number.and_then(|number| u64::try_from(number).ok()), Some(class.unit_size));
    let header = format!("{:?}", class.header).to_lowercase();
    let text = format!("{},{},{},{header}", class.unit_size, class.alignment, class.unit_count);
    assert_eq!(CtlQuery { name: query.name, value: text.as_bytes() }.class(), Some(class));
}

/// Returns a variable, a file, and texts with a fault.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let text = |text: &str| text.as_bytes().to_vec();
    vec![
        ("variable", text("sds.at_create=0;;prefault.at_open=yes;unknown=1;")),
        ("file", text("# settings\nprefault . at_open\n = yes; # x\n;copy_on_write.at_open=1;")),
        ("no_value", text("sds.at_create;prefault.at_open=1")),
        (
            "class",
            text(
                "heap.alloc_class.128.desc=0x200,64,1000,compact;heap.alloc_class.new.desc=500,0,010,none,x",
            ),
        ),
        ("two_values", text("sds.at_create==1;a=b=c")),
    ]
}
