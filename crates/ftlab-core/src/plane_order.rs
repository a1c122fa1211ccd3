//! The order in which consecutive pages use channels, ways, dies and planes.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::geometry::{DieId, Divider, Geometry, PlaneId};

/// One of the levels over which pages are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// C
    Channel,
    /// W
    Way,
    /// D
    Die,
    /// P
    Plane,
}

/// An order of channel, way, die and plane, written as MQSim writes it: `CWDP` uses all channels first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllocationOrder(pub [Level; 4]);

impl AllocationOrder {
    /// All 24 orders.
    pub fn all() -> Vec<AllocationOrder> {
        const LETTERS: [char; 4] = ['C', 'W', 'D', 'P'];
        let mut orders = Vec::with_capacity(24);
        for a in LETTERS {
            for b in LETTERS {
                for c in LETTERS {
                    for d in LETTERS {
                        orders.extend(Self::parse(&String::from_iter([a, b, c, d])));
                    }
                }
            }
        }
        orders
    }

    fn parse(text: &str) -> Option<Self> {
        let mut levels = [Level::Channel; 4];
        let mut seen = [false; 4];
        if text.len() != 4 {
            return None;
        }
        for (level, letter) in levels.iter_mut().zip(text.chars()) {
            *level = match letter {
                'C' => Level::Channel,
                'W' => Level::Way,
                'D' => Level::Die,
                'P' => Level::Plane,
                _ => return None,
            };
            if std::mem::replace(&mut seen[*level as usize], true) {
                return None;
            }
        }
        Some(Self(levels))
    }
}

impl Default for AllocationOrder {
    fn default() -> Self {
        Self([Level::Channel, Level::Way, Level::Die, Level::Plane])
    }
}

impl fmt::Display for AllocationOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for level in self.0 {
            f.write_str(match level {
                Level::Channel => "C",
                Level::Way => "W",
                Level::Die => "D",
                Level::Plane => "P",
            })?;
        }
        Ok(())
    }
}

impl Serialize for AllocationOrder {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AllocationOrder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            de::Error::custom(format!(
                "{text:?} is not an order of the letters C (channel), W (way), D (die) and P (plane) such as \"CWDP\""
            ))
        })
    }
}

impl JsonSchema for AllocationOrder {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AllocationOrder".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let orders: Vec<String> = Self::all().iter().map(ToString::to_string).collect();
        schemars::json_schema!({ "type": "string", "enum": orders })
    }
}

/// The order in which consecutive pages use the planes of a drive, or its dies.
#[derive(Debug, Clone)]
pub struct PlaneOrder {
    planes: Vec<PlaneId>,
    turn: Divider,
}

impl PlaneOrder {
    /// All planes in the order `order`, its first letter varying fastest. Without `with_planes` the plane's letter is
    /// passed over and each die stands once, as its first plane.
    pub fn new(geometry: &Geometry, order: AllocationOrder, with_planes: bool) -> Self {
        let planes_per_die = if with_planes { geometry.planes_per_die() } else { 1 };
        let size = |level| match level {
            Level::Channel => geometry.channels,
            Level::Way => geometry.ways,
            Level::Die => geometry.dies_per_way,
            Level::Plane => planes_per_die,
        };
        let count = geometry.dies() * planes_per_die;
        let planes = (0..count).map(|turn| {
            let mut rest = turn;
            let mut at = [0; 4];
            for level in order.0 {
                at[level as usize] = rest % size(level);
                rest /= size(level);
            }
            let [channel, way, die, plane] = at;
            let die = DieId((channel * geometry.ways + way) * geometry.dies_per_way + die);
            PlaneId(geometry.first_plane(die).0 + plane)
        });
        Self { planes: planes.collect(), turn: Divider::new(count) }
    }

    /// The plane whose turn it is.
    #[inline]
    pub fn at(&self, turn: u32) -> PlaneId {
        self.planes[self.turn.remainder(turn) as usize]
    }

    /// Number of turns before the first plane's comes again.
    pub fn len(&self) -> u32 {
        self.turn.divisor()
    }

    /// Never: a drive has a plane.
    pub fn is_empty(&self) -> bool {
        self.planes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DeviceConfig;

    fn geometry() -> Geometry {
        let text = r#"{ "geometry": { "channels": 2, "ways": 3, "dies": 2, "planes": 2, "blocks_per_plane": 70,
            "pages_per_block": 4, "page_bytes": 4096 } }"#;
        serde_json::from_str::<DeviceConfig>(text).unwrap().to_geometry()
    }

    #[test]
    fn all_orders_visit_every_plane_once() {
        let geometry = geometry();
        for order in AllocationOrder::all() {
            let planes = PlaneOrder::new(&geometry, order, true);
            let mut seen: Vec<u32> = (0..planes.len()).map(|turn| planes.at(turn).0).collect();
            assert_eq!(planes.at(planes.len()), planes.at(0));
            seen.sort_unstable();
            assert_eq!(seen, (0..24).collect::<Vec<_>>(), "{order}");
        }
        assert_eq!(AllocationOrder::all().len(), 24);
    }

    #[test]
    fn the_first_letter_varies_fastest() {
        let geometry = geometry();
        // CWDP, from the definition in MQSim: channel = n mod C; way = (n / C) mod W; die = (n / CW) mod D; ...
        let order = PlaneOrder::new(&geometry, AllocationOrder::default(), true);
        for n in 0..24 {
            let (channel, way, die, plane) = (n % 2, n / 2 % 3, n / 6 % 2, n / 12 % 2);
            assert_eq!(order.at(n).0, ((channel * 3 + way) * 2 + die) * 2 + plane);
        }
    }
}
