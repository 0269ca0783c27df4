//! Core designs.

use serde::{Deserialize, Serialize};

macro_rules! cores {
    ($($variant:ident = $name:literal,)*) => {
        /// A core design: what prediction tables are keyed by. Serialised by its usual name.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Core {
            #[doc = "No table names it."]
            #[default]
            #[serde(rename = "unknown")]
            Unknown,
            $(#[doc = $name] #[serde(rename = $name)] $variant,)*
        }

        impl Core {
            /// Every design that plumb knows, in order of maker and age.
            pub const ALL: &[Core] = &[Core::Unknown, $(Core::$variant,)*];

            pub fn name(self) -> &'static str {
                match self { Core::Unknown => "unknown", $(Core::$variant => $name,)* }
            }
        }
    };
}

cores! {
    NetBurst = "NetBurst", Yonah = "Yonah", Core2 = "Core 2", Penryn = "Penryn",
    Nehalem = "Nehalem", Westmere = "Westmere", SandyBridge = "Sandy Bridge",
    IvyBridge = "Ivy Bridge", Haswell = "Haswell", Broadwell = "Broadwell",
    SkylakeClient = "Skylake", SkylakeServer = "Skylake-SP", PalmCove = "Palm Cove",
    SunnyCove = "Sunny Cove", WillowCove = "Willow Cove", CypressCove = "Cypress Cove",
    GoldenCove = "Golden Cove", RaptorCove = "Raptor Cove", RedwoodCove = "Redwood Cove",
    LionCove = "Lion Cove", CougarCove = "Cougar Cove", CoyoteCove = "Coyote Cove",
    PantherCove = "Panther Cove",
    Bonnell = "Bonnell", Saltwell = "Saltwell", Silvermont = "Silvermont", Airmont = "Airmont",
    Goldmont = "Goldmont", GoldmontPlus = "Goldmont Plus", Tremont = "Tremont",
    Gracemont = "Gracemont", Crestmont = "Crestmont", Skymont = "Skymont",
    Darkmont = "Darkmont", ArcticWolf = "Arctic Wolf",
    KnightsLanding = "Knights Landing", KnightsMill = "Knights Mill",
    K8 = "K8", K10 = "K10", Bobcat = "Bobcat", Bulldozer = "Bulldozer",
    Piledriver = "Piledriver", Steamroller = "Steamroller", Excavator = "Excavator",
    Jaguar = "Jaguar", Puma = "Puma", Zen = "Zen", ZenPlus = "Zen+", Zen2 = "Zen 2",
    Zen3 = "Zen 3", Zen4 = "Zen 4", Zen4c = "Zen 4c", Zen5 = "Zen 5", Zen5c = "Zen 5c",
    Zen6 = "Zen 6",
    Isaiah = "Isaiah", ZhangJiang = "ZhangJiang", WuDaoKou = "WuDaoKou", LuJiaZui = "LuJiaZui",
    YongFeng = "YongFeng", ShiJiDaDao = "ShiJiDaDao",
    CortexA32 = "Cortex-A32", CortexA34 = "Cortex-A34", CortexA35 = "Cortex-A35",
    CortexA53 = "Cortex-A53", CortexA55 = "Cortex-A55", CortexA57 = "Cortex-A57",
    CortexA65 = "Cortex-A65", CortexA72 = "Cortex-A72", CortexA73 = "Cortex-A73",
    CortexA75 = "Cortex-A75", CortexA76 = "Cortex-A76", CortexA77 = "Cortex-A77",
    CortexA78 = "Cortex-A78", CortexA320 = "Cortex-A320", CortexA510 = "Cortex-A510",
    CortexA520 = "Cortex-A520", CortexA710 = "Cortex-A710", CortexA715 = "Cortex-A715",
    CortexA720 = "Cortex-A720", CortexA725 = "Cortex-A725", CortexX1 = "Cortex-X1",
    CortexX2 = "Cortex-X2", CortexX3 = "Cortex-X3", CortexX4 = "Cortex-X4",
    CortexX925 = "Cortex-X925", C1Nano = "C1-Nano", C1Pro = "C1-Pro",
    C1Premium = "C1-Premium", C1Ultra = "C1-Ultra",
    NeoverseE1 = "Neoverse-E1", NeoverseN1 = "Neoverse-N1", NeoverseN2 = "Neoverse-N2",
    NeoverseN3 = "Neoverse-N3", NeoverseV1 = "Neoverse-V1", NeoverseV2 = "Neoverse-V2",
    NeoverseV3 = "Neoverse-V3",
    AmpereOne = "Ampere-1", Ampere1A = "Ampere-1A", Ampere1B = "Ampere-1B",
    BrahmaB53 = "Brahma-B53", ThunderX = "ThunderX", ThunderX2 = "ThunderX2",
    OcteonTx2 = "OcteonTX2", ThunderX3 = "ThunderX3", A64fx = "A64FX", Monaka = "MONAKA",
    Tsv110 = "TSV110", Hip09 = "HIP09", Hip12 = "HIP12", Denver = "Denver",
    Denver2 = "Denver 2", Carmel = "Carmel", Olympus = "Olympus", XGene = "X-Gene",
    Oryon = "Oryon", Kryo = "Kryo", Kryo2xxGold = "Kryo 2xx Gold",
    Kryo2xxSilver = "Kryo 2xx Silver", Kryo3xxGold = "Kryo 3xx Gold",
    Kryo3xxSilver = "Kryo 3xx Silver", Kryo4xxGold = "Kryo 4xx Gold",
    Kryo4xxSilver = "Kryo 4xx Silver", Falkor = "Falkor", Saphira = "Saphira",
    ExynosM1 = "Exynos M1", ExynosM3 = "Exynos M3", ExynosM4 = "Exynos M4",
    ExynosM5 = "Exynos M5", AppleIcestorm = "Icestorm", AppleFirestorm = "Firestorm",
    AppleBlizzard = "Blizzard", AppleAvalanche = "Avalanche", AppleSawtooth = "Sawtooth",
    AppleEverest = "Everest", Ftc310 = "FTC310", Ftc660 = "FTC660", Ftc661 = "FTC661",
    Ftc662 = "FTC662", Ftc663 = "FTC663", Ftc664 = "FTC664", Ftc862 = "FTC862",
}

impl Core {
    /// The design of a usual name; unknown for any other.
    pub(super) fn named(name: &str) -> Core {
        Core::ALL.iter().copied().find(|core| core.name() == name).unwrap_or_default()
    }

    /// Integer additions in general registers that a core starts a cycle. Sources: the makers'
    /// optimisation manuals.
    pub fn additions(self) -> Option<f64> {
        use Core::*;
        Some(match self {
            Core2 | Penryn | Nehalem | Westmere | SandyBridge | IvyBridge => 3.0,
            Haswell | Broadwell | SkylakeClient | SkylakeServer | PalmCove | SunnyCove
            | WillowCove | CypressCove | Gracemont | Crestmont => 4.0,
            GoldenCove | RaptorCove | RedwoodCove => 5.0,
            LionCove | Zen5 | Zen5c => 6.0,
            Zen | ZenPlus | Zen2 | Zen3 | Zen4 | Zen4c => 4.0,
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
            Core::Zen | Core::ZenPlus | Core::Zen2 | Core::Zen3 => &[512],
            Core::Zen4 | Core::Zen4c | Core::Zen5 | Core::Zen5c => &[1024],
            Core::NeoverseV1 => &[1024],
            Core::NeoverseN1 => &[512, 1024],
            _ => &[],
        }
    }
}
