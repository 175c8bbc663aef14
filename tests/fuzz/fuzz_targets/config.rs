#![no_main]
use control::configure;

// Any text is accepted or refused with the line of each fault; what is accepted can be shown as a plan,
// and taken up after itself without a change.
libfuzzer_sys::fuzz_target!(|text: &str| {
    match configure::parse("f", text) {
        Err(error) => assert!(!error.faults.is_empty() && !error.to_string().is_empty()),
        Ok(config) => {
            let _ = configure::route::plans(&config);
            let mut again = config.clone();
            assert!(again.needs_restart(&config).is_empty());
            again.keep_numbers(&config);
            assert!(again.changes(&config).is_empty());
        }
    }
});
