//! IP addresses and networks.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Result;
use crate::value::Value;

/// A network: an address, whose bits beyond the prefix may be set, and the length of the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    length: u8,
}

pub(super) fn call(function: &str, arguments: &[Value]) -> Option<Result> {
    Some(match (function, arguments) {
        ("ip", [Value::String(text)]) => parse_ip(text).map(Value::Ip),
        ("isIP", [Value::String(text)]) => Ok(Value::Bool(parse_ip(text).is_ok())),
        ("ip.isCanonical", [Value::String(text)]) => {
            parse_ip(text).map(|address| Value::Bool(address.to_string() == **text))
        }
        ("cidr", [Value::String(text)]) => parse_cidr(text).map(Value::Cidr),
        ("isCIDR", [Value::String(text)]) => Ok(Value::Bool(parse_cidr(text).is_ok())),
        ("containsIP", [Value::Cidr(network), Value::Ip(address)]) => {
            Ok(Value::Bool(network.contains(*address)))
        }
        ("containsIP", [Value::Cidr(network), Value::String(text)]) => {
            parse_ip(text).map(|address| Value::Bool(network.contains(address)))
        }
        ("containsCIDR", [Value::Cidr(network), Value::Cidr(other)]) => {
            Ok(Value::Bool(network.covers(other)))
        }
        ("containsCIDR", [Value::Cidr(network), Value::String(text)]) => {
            parse_cidr(text).map(|other| Value::Bool(network.covers(&other)))
        }
        ("ip", [Value::Cidr(network)]) => Ok(Value::Ip(network.address)),
        ("prefixLength", [Value::Cidr(network)]) => Ok(Value::Int(i64::from(network.length))),
        ("masked", [Value::Cidr(network)]) => Ok(Value::Cidr(Cidr {
            address: network.masked(network.address),
            length: network.length,
        })),
        ("family", [Value::Ip(address)]) => Ok(Value::Int(if address.is_ipv4() { 4 } else { 6 })),
        ("isUnspecified", [Value::Ip(address)]) => Ok(Value::Bool(address.is_unspecified())),
        ("isLoopback", [Value::Ip(address)]) => Ok(Value::Bool(address.is_loopback())),
        ("isLinkLocalMulticast", [Value::Ip(address)]) => Ok(Value::Bool(is_link_local_multicast(*address))),
        ("isLinkLocalUnicast", [Value::Ip(address)]) => Ok(Value::Bool(is_link_local_unicast(*address))),
        ("isGlobalUnicast", [Value::Ip(address)]) => Ok(Value::Bool(is_global_unicast(*address))),
        _ => return None,
    })
}

fn parse_ip(text: &str) -> std::result::Result<IpAddr, String> {
    if text.contains('%') {
        return Err(format!("IP address {text:?} with zone value is not allowed"));
    }
    match text.parse() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"))
        }
        Ok(address) => Ok(address),
        Err(_) => Err(format!(
            "IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): unable to parse IP"
        )),
    }
}

fn parse_cidr(text: &str) -> std::result::Result<Cidr, String> {
    let error = |reason: &str| {
        format!(
            "network address parse error during conversion from string: network address parse error during conversion \
             from string: netip.ParsePrefix({text:?}): {reason}"
        )
    };
    let (address, length) = text.split_once('/').ok_or_else(|| error("no '/'"))?;
    let address: IpAddr = address.parse().map_err(|_| error("unable to parse IP"))?;
    let canonical = length == "0" || !length.starts_with(['0', '+']);
    let length: u8 = length
        .parse()
        .ok()
        .filter(|_| canonical)
        .ok_or_else(|| error("bad bits after slash"))?;
    if length > if address.is_ipv4() { 32 } else { 128 } {
        return Err(error("prefix length out of range"));
    }
    Ok(Cidr { address, length })
}

impl Cidr {
    fn masked(&self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX
                    .checked_shl(32 - u32::from(self.length.min(32)))
                    .unwrap_or(0);
                Ipv4Addr::from_bits(address.to_bits() & mask).into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX
                    .checked_shl(128 - u32::from(self.length.min(128)))
                    .unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() & mask).into()
            }
        }
    }

    fn contains(&self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && self.masked(self.address) == self.masked(address)
    }

    fn covers(&self, other: &Cidr) -> bool {
        self.length <= other.length && self.contains(other.address)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

/// Neither unspecified, loopback, multicast, link-local nor broadcast. Private addresses are global.
fn is_global_unicast(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !(address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || is_link_local_unicast(address)
        || is_broadcast)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_addresses_of_their_family() {
        let network = parse_cidr("10.0.0.0/8").unwrap();
        assert!(network.contains("10.1.2.3".parse().unwrap()));
        assert!(!network.contains("11.0.0.1".parse().unwrap()) && !network.contains("::1".parse().unwrap()));
        assert!(
            network.covers(&parse_cidr("10.5.0.0/16").unwrap())
                && !network.covers(&parse_cidr("0.0.0.0/0").unwrap())
        );
        assert!(
            parse_cidr("0.0.0.0/0")
                .unwrap()
                .contains("1.2.3.4".parse().unwrap())
        );
        for bad in ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/08", "a/8"] {
            assert!(parse_cidr(bad).is_err(), "{bad}");
        }
        for bad in ["1.2.3", "::ffff:1.2.3.4", "fe80::1%eth0"] {
            assert!(parse_ip(bad).is_err(), "{bad}");
        }
    }
}
