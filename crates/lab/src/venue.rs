//! Where a run takes place: which hosts and which of their ends run here, and on which interfaces.

use std::path::PathBuf;

use measure::{Machine, Side};
use scenario::{HostId, PortId, Scenario};
use serde_json::json;
use station::Link;

use crate::error::LabError;
use crate::here;
use crate::journal::{self, Journal, Restored};
use crate::kernel_lab::KernelLab;
use crate::laboratory;
use crate::ports::{self, Veth};
use crate::rights::Rights;
use crate::role::Role;
use crate::topology::Topology;
use crate::traffic::Generators;

/// Where a run takes place.
#[derive(Debug, Clone)]
pub enum Place {
    /// Every host in a network namespace of its own, all of them made for the run.
    Laboratory(Rights),
    /// The same inside the kernel laboratory, whose links have a rate.
    KernelLab(KernelLab),
    /// One host in the network of this machine as it is; the others are elsewhere.
    Here(Role),
}

impl Place {
    /// By which right the run has its network, in words.
    pub(crate) fn rights_name(&self) -> &'static str {
        match self {
            Self::Laboratory(rights) => rights.name(),
            Self::KernelLab(_) => "root of the kernel laboratory",
            Self::Here(_) => "this machine's network",
        }
    }

    /// What the ports are made of, where they are made.
    fn veth(&self) -> Veth {
        if matches!(self, Self::KernelLab(_)) { Veth::KernelLab } else { Veth::Stock }
    }
}

/// A place while a run is there.
pub(crate) enum Venue {
    /// What was made is in the journal, so that it can be undone.
    Laboratory { topology: Topology, place: Place, journal: Option<Journal> },
    /// Nothing is made.
    Here(Role),
}

impl Venue {
    /// Looks whether the run can take place there; makes nothing. What earlier runs left is undone and noted.
    ///
    /// # Errors
    /// What stands in the way.
    pub(crate) fn find(scenario: &Scenario, place: &Place, notes: &mut Vec<String>) -> Result<Self, LabError> {
        if scenario.streams.is_empty() {
            return Err(LabError::Scenario {
                what: "the scenario has no stream, so there is nothing to run".into(),
                mend: "add a [[streams]] table".into(),
            });
        }
        match place {
            Place::Laboratory(_) | Place::KernelLab(_) => {
                laboratory::check(scenario)?;
                notes.extend(journal::restore()?.into_iter().filter_map(undone_note));
                let topology = Topology::of(scenario);
                if let Some(name) = topology.taken() {
                    return Err(LabError::NamespaceTaken { name: name.into(), owner: journal::owner_of(name) });
                }
                Ok(Self::Laboratory { topology, place: place.clone(), journal: None })
            }
            Place::Here(role) => {
                here::check(scenario, role)?;
                notes.extend(here::left_undone(scenario, role));
                Ok(Self::Here(role.clone()))
            }
        }
    }

    /// Makes the network, if it is to be made.
    ///
    /// # Errors
    /// The first step that failed; [`Self::undo`] removes what was made before it.
    pub(crate) fn create(&mut self, scenario: &Scenario, link: Link) -> Result<(), LabError> {
        let Self::Laboratory { topology, place, journal } = self else { return Ok(()) };
        *journal = Some(Journal::open(&scenario.name, topology.namespaces())?);
        if let Place::KernelLab(lab) = place {
            lab.enter()?;
        }
        topology.create(scenario, place.veth())?;
        if link == Link::Xdp { topology.keep_tags_in_frames(scenario) } else { Ok(()) }
    }

    /// Starts the traffic beside the streams; a role makes none.
    pub(crate) fn start_traffic(&mut self, scenario: &Scenario) -> Result<Option<Generators>, LabError> {
        match self {
            Self::Laboratory { topology, place, journal: Some(journal) } if !scenario.traffic.is_empty() => {
                Generators::start(scenario, topology, place.veth(), journal).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Notes a process that the run started.
    pub(crate) fn started(&mut self, pid: u32) -> Result<(), LabError> {
        match self {
            Self::Laboratory { journal: Some(journal), .. } => journal.started(pid),
            // It ends with its parent, and there is nothing else to undo.
            _ => Ok(()),
        }
    }

    /// Removes what was made.
    ///
    /// # Errors
    /// Something could not be removed.
    pub(crate) fn undo(&self) -> Result<(), LabError> {
        match self {
            Self::Laboratory { journal: Some(journal), .. } => journal.undo(),
            _ => Ok(()),
        }
    }

    /// The interface that an output port is.
    pub(crate) fn interface(&self, port: PortId) -> Option<&str> {
        match self {
            Self::Laboratory { topology, .. } => topology.interface(port),
            Self::Here(role) => role.interface(port),
        }
    }

    /// The file that names a host's network namespace; none where it plays in that of this process.
    pub(crate) fn namespace(&self, host: HostId) -> Option<PathBuf> {
        match self {
            Self::Laboratory { topology, .. } => Some(topology.namespace_path(host)),
            Self::Here(_) => None,
        }
    }

    /// The name of a host's network namespace; none where it plays in that of this process.
    pub(crate) fn namespace_name(&self, host: HostId) -> Option<&str> {
        match self {
            Self::Laboratory { topology, .. } => Some(topology.namespace(host)),
            Self::Here(_) => None,
        }
    }

    /// The way to the interfaces where `wanted` was asked for. A veth hands a frame's launch time on with the frame, in
    /// place of a stamp, and the kernel takes one when the socket gets the frame: left to itself, a laboratory takes packet
    /// sockets then, with which such arrivals are held against bounds.
    pub(crate) fn link(&self, scenario: &Scenario, wanted: Link) -> Link {
        match self {
            Self::Laboratory { .. } if wanted == Link::Auto && ports::keep_launch_times(scenario) => Link::Packet,
            _ => wanted,
        }
    }

    /// Whether this end of a stream runs here.
    pub(crate) fn has(&self, scenario: &Scenario, stream: usize, side: Side) -> bool {
        match self {
            Self::Laboratory { .. } => true,
            Self::Here(role) => role.drives(scenario, stream, side),
        }
    }

    /// What the run is called.
    pub(crate) fn control_name(&self, scenario: &Scenario) -> String {
        match self {
            Self::Laboratory { .. } => scenario.name.clone(),
            Self::Here(role) => role.name(scenario),
        }
    }

    /// The command that plays there.
    pub(crate) fn command(&self) -> &'static str {
        match self {
            Self::Laboratory { .. } => "run",
            Self::Here(role) => role.part.name(),
        }
    }

    /// Whether hosts elsewhere take part, so that counters must name one message each beyond this run.
    pub(crate) fn is_one_of_several(&self) -> bool {
        matches!(self, Self::Here(_))
    }

    /// Adds to the machine's description what is special about the place.
    pub(crate) fn describe(&self, scenario: &Scenario, machine: &mut Machine) {
        match self {
            Self::Laboratory { topology, place, .. } => {
                machine.insert("qdiscs".into(), json!(topology.found_queues()));
                let plans = ports::plans(scenario, topology, place.veth());
                let lines = |plan: &ports::HostPlan| json!(plan.lines().collect::<Vec<_>>());
                let told = plans.iter().map(|plan| (scenario.host(plan.host()).name.clone(), lines(plan)));
                machine.insert("tc".into(), serde_json::Map::from_iter(told).into());
                machine.insert("rights".into(), json!(place.rights_name()));
                if let Place::KernelLab(lab) = place {
                    return lab.describe(scenario, machine);
                }
                machine.insert("link".into(), json!("veth pairs between network namespaces of one kernel"));
                let wire = "veth passes a frame on at once: its links have no rate, so no transmission time is measured, frames of a \
                            window leave together, and a bound is not put to the test";
                machine.insert("wire".into(), json!(wire));
            }
            Self::Here(role) => here::describe(scenario, role, machine),
        }
    }
}

fn undone_note(restored: Restored) -> Option<String> {
    match restored {
        Restored::Undone { scenario, namespaces, .. } if !namespaces.is_empty() => Some(format!(
            "an earlier run of {scenario} had left {} network namespaces; they are removed",
            namespaces.len()
        )),
        _ => None,
    }
}
