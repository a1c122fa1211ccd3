//! BIOTracer's traces of smartphones.

use ftlab_core::host::request::{Op, Request};

use crate::clock::{self, Clock};
use crate::format::{Argument, Format, Sample};
use crate::text::{Cursor, Extent, Fault, LineParser, TextReader, checked_sectors, shape_of};

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "biotracer",
    summary: "BIOTracer's traces of applications on a Nexus 5 smartphone (Zhou et al., IISWC 2015)",
    columns: "start_sector sectors bytes flags created dispatched submitted completed",
    units: "sectors of 512 bytes; the size in bytes is not used; flags decimal, bit 0 set = write; the arrival is the \
            creation, in decimal seconds, counted from the earliest of the first requests; the other times are not used; \
            lines are nearly in order of creation; where the phone's clock was set, which shows as a step of more than a \
            day, time goes on from the request before",
    cannot_say: "trims, flushes, partitions; response times are there but not used",
    argument: Some(Argument {
        summary: clock::ARGUMENT,
        example: "1398396860",
        required: false,
        read: |input, text| {
            let clock = Clock::given(text, 9, input.origin())?;
            Ok(Box::new(TextReader::new(input, BioTracer { clock, ..BioTracer::default() })))
        },
    }),
    extensions: &["biotracer"],
    example: "4043872 96 49152 5 1398396860.168065791 1398396860.168307510 1398396860.168322874 1398396860.171732249\n\
              4043968 8 4096 5 1398396860.171915740 1398396860.172014854 1398396860.172024750 1398396860.172760844\n\
              52432368 8 4096 1 1398396860.171927979 1398396860.172045063 1398396860.172797875 1398396860.173491156\n\
              33862488 48 24576 4 1398396860.202961469 1398396860.203014958 1398396860.203039125 1398396860.206382875\n\
              4043976 112 57344 5 1398396860.206585375 1398396860.206630895 1398396860.206649281 1398396860.210719385\n",
    head: "",
    detect: |sample: &Sample<'_>| shape_of(sample.lines, BioTracer::default()).fits(),
    read: |input| {
        let clock = Clock::of(&input);
        Ok(Box::new(TextReader::new(input, BioTracer { clock, ..BioTracer::default() })))
    },
    files_beside: None,
    write: None,
};

#[derive(Default)]
struct BioTracer {
    clock: Clock,
    /// Time stamp and arrival of the request before.
    previous_ns: Option<(u64, u64)>,
    /// What has to be added to time stamps since the clock was set.
    shift_ns: i64,
}

impl BioTracer {
    /// The arrival of a request created at `time_ns`, which stands at `at`.
    #[inline(always)]
    fn arrival(&mut self, time_ns: u64, at: usize) -> Result<u64, Fault> {
        const DAY_NS: u64 = 86_400_000_000_000;
        let corrected = match self.previous_ns {
            Some((time_before_ns, arrival_ns)) if time_ns.abs_diff(time_before_ns) > DAY_NS => {
                let continued_ns = arrival_ns.saturating_add(self.clock.start_ns().unwrap_or(0));
                self.shift_ns = continued_ns.wrapping_sub(time_ns).cast_signed();
                Some(continued_ns)
            }
            _ => time_ns.checked_add_signed(self.shift_ns),
        };
        let corrected =
            corrected.ok_or_else(|| Cursor::value(at, "a time not before the begin of the trace"))?;
        let arrival_ns = self.clock.since(corrected, at)?;
        self.previous_ns = Some((time_ns, arrival_ns));
        Ok(arrival_ns)
    }
}

impl LineParser for BioTracer {
    #[inline(always)]
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        let address_at = line.position();
        let lba = line.integer("a start sector")?;
        line.blanks()?;
        let size_at = line.position();
        let sectors = line.integer("a size in sectors")?;
        line.blanks()?;
        line.integer("a size in bytes")?;
        line.blanks()?;
        let flags = line.integer("flags")?;
        line.blanks()?;
        let time_at = line.position();
        let time_ns = line.decimal(9, "a time of creation in seconds")?;
        for expected in [
            "a time of dispatch in seconds",
            "a time of submission in seconds",
            "a time of completion in seconds",
        ] {
            line.blanks()?;
            line.decimal(9, expected)?;
        }
        line.end_of_fields()?;
        let (lba, sectors) = checked_sectors(lba, sectors, Extent { address_at, size_at })?;
        let arrival_ns = self.arrival(time_ns, time_at)?;
        let op = if flags & 1 == 1 { Op::Write } else { Op::Read };
        Ok(Some(Request { arrival_ns, lba, sectors, op, stream: 0, fua: false }))
    }

    fn look_ahead(&mut self, lines: &[u8]) {
        self.clock.settle(lines, BioTracer { clock: Clock::zero(), ..BioTracer::default() });
    }
}
