//! The XDP programs as what carries the allow-list and the table's generation.

use control::{assemble::Source, configure::Checked, controller::Steering};
use dataplane::program::{Program, ProgramError};
use exchange::sources::Prefix;
use xdp_abi::{AllowValue, MediaRange, NO_PEER, NO_REGION, Settings};

/// All programs of a node, each with the VLAN of its interface; none for kernel sockets.
pub(super) struct Programs<'a> {
    programs: &'a mut [Program],
    vlans: Vec<u16>,
}

impl<'a> Programs<'a> {
    pub(super) fn new(programs: &'a mut [Program], config: &Checked) -> Self {
        Self { programs, vlans: config.interfaces.iter().map(|i| i.vlan.unwrap_or(0)).collect() }
    }

    /// Makes the packets of all listeners ours.
    pub(super) fn steer(&mut self, config: &Checked) -> Result<(), ProgramError> {
        for program in self.programs.iter_mut() {
            for listener in &config.listeners {
                program.add_service(listener.address)?;
                let ports = &config.media.ports;
                for address in listener.media.iter().filter(|_| !ports.is_empty()) {
                    let range = MediaRange { first: *ports.start(), last: *ports.end() };
                    program.add_media(*address, range)?;
                }
            }
        }
        Ok(())
    }

    fn each(&mut self, work: impl Fn(&mut Program) -> Result<(), ProgramError>) -> Result<(), String> {
        self.programs.iter_mut().try_for_each(work).map_err(|e| e.to_string())
    }
}

impl Steering for Programs<'_> {
    fn allow(&mut self, prefix: Prefix, source: Source) -> Result<(), String> {
        let value = AllowValue {
            peer: source.peer.map_or(NO_PEER, |p| p.0),
            region: source.region.map_or(NO_REGION, |r| r.0),
            health: source.state as u8,
        };
        self.each(|program| program.allow(prefix, value))
    }

    fn forbid(&mut self, prefix: Prefix) -> Result<(), String> {
        self.each(|program| program.forbid(prefix))
    }

    fn set_epoch(&mut self, generation: u32) -> Result<(), String> {
        for (program, vlan) in self.programs.iter_mut().zip(&self.vlans) {
            let settings = Settings { epoch: generation, vlan: *vlan, pad: 0 };
            program.set_settings(settings).map_err(|e| e.to_string())?;
        }
        Ok(())
    }
}
