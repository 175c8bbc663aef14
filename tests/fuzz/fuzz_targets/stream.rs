#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::stream_property(bytes));
