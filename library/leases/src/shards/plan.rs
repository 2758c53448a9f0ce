//! Which slots a member should give up and which it should claim, so that shares are equal and few slots move. Every member
//! computes its own part from the table and the members it sees.

/// The holder of a slot, as seen by one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// No owner.
    Free,
    /// This member.
    Mine,
    /// This member, which is giving it up.
    Going,
    /// Another active member, by its position among the members.
    Member(usize),
    /// A member that is leaving, or that may be dead.
    Other,
}

/// What one member should do.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotPlan {
    pub(crate) give: Vec<usize>,
    pub(crate) claim: Vec<usize>,
}

/// The plan of member `me` of `members`. All members use the same order.
pub(crate) fn plan(slots: &[Holder], me: usize, members: usize) -> SlotPlan {
    let quota = quota(slots, me, members);
    let mut mine: Vec<bool> = slots.iter().map(|holder| *holder == Holder::Mine).collect();
    let mut count = mine.iter().filter(|mine| **mine).count();
    let mut plan = SlotPlan::default();
    while count > quota {
        // The slot with the fewest neighbours first, so that few ranges remain; ties go to the highest.
        let Some(slot) = (0..slots.len())
            .rev()
            .filter(|slot| mine[*slot])
            .min_by_key(|slot| neighbours(&mine, *slot))
        else {
            break;
        };
        mine[slot] = false;
        count -= 1;
        plan.give.push(slot);
    }
    while count < quota {
        // The slot with the most neighbours first; ties go to the lowest.
        let Some(slot) = (0..slots.len())
            .filter(|slot| slots[*slot] == Holder::Free && !mine[*slot])
            .min_by_key(|slot| 2 - neighbours(&mine, *slot))
        else {
            break;
        };
        mine[slot] = true;
        count += 1;
        plan.claim.push(slot);
    }
    plan
}

/// How many slots `me` may have: the fair share, rounded up for the members that have most now, so that few slots move.
fn quota(slots: &[Holder], me: usize, members: usize) -> usize {
    let members = members.max(1);
    let mut counts = vec![0usize; members];
    for holder in slots {
        let member = match holder {
            Holder::Mine | Holder::Going => me,
            Holder::Member(member) => *member,
            Holder::Free | Holder::Other => continue,
        };
        if let Some(count) = counts.get_mut(member) {
            *count += 1;
        }
    }
    let mut ranking: Vec<usize> = (0..members).collect();
    ranking.sort_by_key(|member| (std::cmp::Reverse(counts[*member]), *member));
    let rank = ranking.iter().position(|member| *member == me).unwrap_or(members);
    let (share, rest) = (slots.len() / members, slots.len() % members);
    share + usize::from(rank < rest)
}

/// How many adjacent slots belong to this member: 0, 1 or 2.
fn neighbours(mine: &[bool], slot: usize) -> usize {
    let before = slot.checked_sub(1).and_then(|slot| mine.get(slot)).copied();
    let after = mine.get(slot + 1).copied();
    usize::from(before == Some(true)) + usize::from(after == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Holder::{Free, Going, Member, Mine, Other};

    #[test]
    fn a_single_member_claims_every_free_slot() {
        let plan = plan(&[Free, Other, Free, Mine], 0, 1);

        assert_eq!((plan.give, plan.claim), (vec![], vec![2, 0]));
    }

    #[test]
    fn a_member_claims_no_more_than_its_share() {
        assert_eq!(plan(&[Free; 4], 0, 2).claim, [0, 1]);
        assert_eq!(plan(&[Member(0), Member(0), Free, Free], 1, 2).claim, [2, 3]);
    }

    #[test]
    fn a_new_member_receives_its_share_and_no_more() {
        let first = plan(&[Mine, Mine, Mine, Mine, Mine], 0, 2);
        assert_eq!((first.give, first.claim), (vec![4, 3], vec![]));

        let second = plan(&[Member(0), Member(0), Member(0), Free, Free], 1, 2);
        assert_eq!((second.give, second.claim), (vec![], vec![3, 4]));
    }

    #[test]
    fn slots_being_given_up_are_not_given_up_twice() {
        assert_eq!(plan(&[Mine, Mine, Going, Going], 0, 2), SlotPlan::default());
    }

    #[test]
    fn the_larger_share_stays_with_its_owner() {
        assert_eq!(plan(&[Mine, Member(0), Member(0)], 1, 2), SlotPlan::default());
        assert_eq!(plan(&[Member(1), Mine, Mine], 0, 2), SlotPlan::default());
    }

    #[test]
    fn isolated_slots_are_given_up_first_and_adjacent_slots_claimed_first() {
        assert_eq!(plan(&[Mine, Free, Free, Mine, Mine, Mine], 0, 2).give, [0]);
        assert_eq!(
            plan(&[Free, Member(1), Free, Mine, Member(1), Member(1)], 0, 2).claim,
            [2, 0]
        );
    }
}
