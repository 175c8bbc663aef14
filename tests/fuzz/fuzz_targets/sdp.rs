#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    hostile::description::sdp_property(bytes);
    hostile::description::packet_property(bytes);
});
