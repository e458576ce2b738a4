//! Styles of the drawing, and of the page around it.

/// Colours, for light and dark mode.
pub(super) const COLOURS: &str = "
:root{--page:#f6f7f9;--panel:#fff;--edge:#d8dde5;--ink:#1c2430;--quiet:#68758a;--tank:#eef1f5;--blank:#f8fafc;
--kept:#dfe4ea;--memory:#e2a32c;--alarm:#c8321f;--good:#2f9e58;--inside:#fff;
--h0:#2f6fdb;--h1:#0e8a9c;--h2:#7b56c9;--h3:#b84f93;--h4:#4a63c4;--h5:#3a7fa8;
--fsdax:#1f8a4c;--devdax:#c0392b;--sector:#b7791f;--raw:#66748a}
@media(prefers-color-scheme:dark){:root{--page:#10141a;--panel:#1a2029;--edge:#323b48;--ink:#e6eaf0;--quiet:#93a0b4;
--tank:#232b36;--blank:#1f2630;--kept:#3a4452;--memory:#c98a1b;--alarm:#ff7662;--good:#48c07a;--inside:#fff;
--h0:#3f7ce0;--h1:#148fa0;--h2:#8562d6;--h3:#bd5a9a;--h4:#5a74d6;--h5:#4a8fb8;
--fsdax:#3fbf73;--devdax:#ef7f72;--sector:#e0ac4c;--raw:#93a0b4}}
";

/// Styles of the page.
pub(super) const PAGE: &str = "
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
main{max-width:1280px;margin:0 auto;padding:28px 24px 48px}
h1{font-size:26px;line-height:1.2;margin:0 0 4px}
p{margin:0 0 14px;color:var(--quiet)}
.drawing{overflow-x:auto}
svg{display:block;width:100%;min-width:860px;height:auto;font:12px system-ui,sans-serif}
ul{display:flex;flex-wrap:wrap;gap:6px 18px;list-style:none;margin:0 0 14px;padding:0;font-size:13px}
li i{display:inline-block;width:13px;height:13px;border-radius:3px;margin-right:6px;vertical-align:-2px;
border:1px solid var(--edge)}
.stripes{background:repeating-linear-gradient(45deg,var(--tank) 0 3px,var(--quiet) 3px 4px)}
table{border-collapse:collapse;width:100%;font-size:13px;margin-top:8px}
th,td{text-align:left;padding:5px 12px 5px 0;border-bottom:1px solid var(--edge)}
th{color:var(--quiet);font-weight:500}td{font-variant-numeric:tabular-nums}
.scroll{overflow-x:auto}
@media(max-width:700px){main{padding:16px 12px 32px}svg{min-width:1200px}th,td{white-space:nowrap}}
";

/// Styles of shapes and of text in the drawing.
pub(super) const DRAWING: &str = "
text{fill:var(--ink)}
.title{font-size:20px;font-weight:600}.name{font-size:12px;font-weight:600}.small{font-size:11px}
.quiet{fill:var(--quiet)}.alarm{fill:var(--alarm)}.inside{fill:var(--inside)}.bright{fill:#2a1c00}
.panel{fill:var(--panel);stroke:var(--edge)}
.chip{fill:var(--tank);stroke:var(--edge)}.chip.memory{fill:none;stroke:var(--memory);stroke-width:1.5}
.rule{stroke:var(--edge);fill:none}
.tank{fill:var(--tank);stroke:var(--edge);stroke-width:1.5}
.ill .tank{stroke:var(--alarm);stroke-dasharray:5 4}
.dot{fill:var(--good)}.dot.alarm{fill:var(--alarm)}
.cross{stroke:var(--alarm);stroke-width:2;opacity:.55;fill:none}
.lock rect{fill:var(--ink)}.lock path{fill:none;stroke:var(--ink);stroke-width:3}
.memory{fill:var(--memory)}.reserved{fill:url(#hatch)}.blank{fill:var(--blank)}.kept{fill:var(--kept)}
.ground{fill:var(--tank)}.line{fill:var(--quiet);opacity:.6}
.thread{fill:none;stroke-width:2.5;opacity:.6}
.bar{fill:var(--blank);stroke-width:1.5}
.off .bar,.off>.space{stroke-dasharray:5 4;opacity:.6}
.space{fill-opacity:.2;stroke-width:1.5}.fsdax{fill:var(--fsdax);stroke:var(--fsdax)}
.devdax{fill:var(--devdax);stroke:var(--devdax)}.sector{fill:var(--sector);stroke:var(--sector)}
.raw{fill:var(--raw);stroke:var(--raw)}
.module:hover .tank,.region:hover>.bar{stroke:var(--ink)}
.namespace:hover>.space{fill-opacity:.38}
";

/// Styles of a drawing that is a file of its own.
pub(super) const ALONE: &str = "svg{background:var(--page);font:12px system-ui,sans-serif}";

/// Returns the styles of region colours, for surfaces and for lines.
pub(super) fn hues() -> String {
    (0..6)
        .map(|hue| format!(".hue{hue}{{fill:var(--h{hue})}}.stroke{hue}{{stroke:var(--h{hue})}}\n"))
        .collect()
}
