//! Core designs.

use serde::{Deserialize, Serialize};

macro_rules! cores {
    ($($variant:ident = $name:literal,)*) => {
        /// A core design: what prediction tables are keyed by. Serialised by its usual name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Core {
            $(#[doc = $name] #[serde(rename = $name)] $variant,)*
        }

        impl Core {
            /// Every design that plumb knows, in order of maker and age.
            pub const ALL: &[Core] = &[$(Core::$variant,)*];

            /// Usual name.
            pub fn name(self) -> &'static str {
                match self { $(Core::$variant => $name,)* }
            }
        }
    };
}

cores! {
    Unknown = "unknown",
    Core2 = "Core 2", Nehalem = "Nehalem", Westmere = "Westmere", SandyBridge = "Sandy Bridge",
    IvyBridge = "Ivy Bridge", Haswell = "Haswell", Broadwell = "Broadwell",
    SkylakeClient = "Skylake", SkylakeServer = "Skylake-SP", PalmCove = "Palm Cove",
    SunnyCove = "Sunny Cove", WillowCove = "Willow Cove", CypressCove = "Cypress Cove",
    GoldenCove = "Golden Cove", RaptorCove = "Raptor Cove", RedwoodCove = "Redwood Cove",
    LionCove = "Lion Cove",
    Silvermont = "Silvermont", Goldmont = "Goldmont", Tremont = "Tremont", Gracemont = "Gracemont",
    Crestmont = "Crestmont", Skymont = "Skymont",
    Bulldozer = "Bulldozer", Zen = "Zen", Zen2 = "Zen 2", Zen3 = "Zen 3", Zen4 = "Zen 4",
    Zen5 = "Zen 5",
    CortexA53 = "Cortex-A53", CortexA55 = "Cortex-A55", CortexA57 = "Cortex-A57",
    CortexA72 = "Cortex-A72", CortexA73 = "Cortex-A73", CortexA75 = "Cortex-A75",
    CortexA76 = "Cortex-A76", CortexA77 = "Cortex-A77", CortexA78 = "Cortex-A78",
    CortexA510 = "Cortex-A510", CortexA710 = "Cortex-A710", CortexA715 = "Cortex-A715",
    CortexX1 = "Cortex-X1", CortexX2 = "Cortex-X2", CortexX3 = "Cortex-X3",
    NeoverseN1 = "Neoverse-N1", NeoverseN2 = "Neoverse-N2", NeoverseN3 = "Neoverse-N3",
    NeoverseV1 = "Neoverse-V1", NeoverseV2 = "Neoverse-V2", NeoverseV3 = "Neoverse-V3",
    AmpereOne = "Ampere-1", ThunderX2 = "ThunderX2", Tsv110 = "TSV110", A64fx = "A64FX",
    AppleIcestorm = "Icestorm", AppleFirestorm = "Firestorm", AppleBlizzard = "Blizzard",
    AppleAvalanche = "Avalanche",
}

impl Core {
    /// The design that shares a hybrid Intel chip with this big core.
    pub(super) fn small_partner(self) -> Core {
        match self {
            Core::SunnyCove => Core::Tremont,
            Core::GoldenCove | Core::RaptorCove => Core::Gracemont,
            Core::RedwoodCove => Core::Crestmont,
            Core::LionCove => Core::Skymont,
            _ => Core::Unknown,
        }
    }

    /// Integer additions in general registers that a core starts a cycle. Sources: the makers'
    /// optimisation manuals.
    pub fn additions(self) -> Option<f64> {
        use Core::*;
        Some(match self {
            Core2 | Nehalem | Westmere | SandyBridge | IvyBridge => 3.0,
            Haswell | Broadwell | SkylakeClient | SkylakeServer | PalmCove | SunnyCove
            | WillowCove | CypressCove | Gracemont | Crestmont => 4.0,
            GoldenCove | RaptorCove | RedwoodCove => 5.0,
            LionCove | Zen5 => 6.0,
            Zen | Zen2 | Zen3 | Zen4 => 4.0,
            CortexA76 | NeoverseN1 => 3.0,
            CortexA77 | CortexA78 | CortexA710 | CortexA715 | NeoverseN2 | NeoverseN3 => 4.0,
            CortexX1 | CortexX2 | NeoverseV1 => 4.0,
            CortexX3 | NeoverseV2 | NeoverseV3 => 6.0,
            AppleFirestorm | AppleAvalanche => 6.0,
            _ => return None,
        })
    }

    /// Sizes of the private L2 that products of this design have, in KiB; empty where L2 is shared,
    /// optional or the table does not say. Sources: the makers' optimisation manuals and product
    /// briefs.
    pub(super) fn l2_kib(self) -> &'static [u64] {
        match self {
            Core::Nehalem | Core::Westmere | Core::SandyBridge | Core::IvyBridge => &[256],
            Core::Haswell | Core::Broadwell | Core::SkylakeClient | Core::PalmCove => &[256],
            Core::SkylakeServer => &[1024],
            Core::SunnyCove => &[512, 1280],
            Core::WillowCove => &[1280],
            Core::CypressCove => &[512],
            Core::GoldenCove | Core::RaptorCove => &[1280, 2048],
            Core::RedwoodCove => &[2048],
            Core::LionCove => &[2560, 3072],
            Core::Zen | Core::Zen2 | Core::Zen3 => &[512],
            Core::Zen4 | Core::Zen5 => &[1024],
            Core::NeoverseV1 => &[1024],
            Core::NeoverseN1 => &[512, 1024],
            _ => &[],
        }
    }
}
