//! The style sheet: light, dark, paper and telephone from one set of names.
//!
//! Colours are told apart by people who do not see red and green alike (after Okabe and Ito), and every series
//! has a dash of its own. The pairs of text and ground keep a contrast of 4.5 : 1 or more.

/// All of it; goes into the page's head.
pub(crate) const CSS: &str = r#"
:root{color-scheme:light dark;
--ground:#f6f7f9;--card:#fff;--ink:#1a1f26;--soft:#55606e;--line:#dde1e7;--rule:#e8ebef;
--measured:#0067a8;--simulated:#b25400;--more1:#007a5a;--more2:#a8327e;--bound:#6b3fa0;--good:#00704d;--bad:#b3261e;
--wait:#8fb8de;--send:#e3b23c;--wire:#5c6b7a;--receive:#7cc3a2;--work:#d59bc0;--piece:#14181d;
--subscribe:#8fb8de;--application:#d9c3e6;--publish:#b25400;--tint-good:#e9f5f0;--tint-bad:#fcefee}
@media (prefers-color-scheme:dark){:root{
--ground:#12161b;--card:#1a2027;--ink:#e7eaee;--soft:#a2adba;--line:#303944;--rule:#28303a;
--measured:#62b5ec;--simulated:#f0a04b;--more1:#4fc79f;--more2:#e58cc4;--bound:#c4a1ef;--good:#5fcfa5;--bad:#ff8f85;
--wait:#3f6f9c;--send:#9a7415;--wire:#8795a4;--receive:#2f7d5f;--work:#8a4d77;--piece:#fff;
--subscribe:#36618b;--application:#5f4775;--publish:#f0a04b;--tint-good:#15292a;--tint-bad:#331d1d}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--ground);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Helvetica Neue",Arial,sans-serif}
main{max-width:72rem;margin:0 auto;padding:2.5rem 1.5rem 4rem}
h1{font-size:2rem;line-height:1.2;margin:.1rem 0 .4rem;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:1.2rem;line-height:1.3;margin:0 0 .35rem;overflow-wrap:anywhere}
h3{font-size:1rem;margin:1.3rem 0 .3rem;overflow-wrap:anywhere}
h4,h5{font-size:.95rem;margin:1rem 0 .2rem}
h2.scenario{font-size:1.6rem;margin:3rem 0 .6rem;border-top:1px solid var(--line);padding-top:2rem}
p{margin:.4rem 0}
a{color:var(--measured)}
.eyebrow{color:var(--soft);font-size:.8rem;letter-spacing:.09em;text-transform:uppercase;margin:0;display:flex;
align-items:center;gap:.5rem}
.eyebrow svg{width:26px;height:16px}
.lede{color:var(--soft);max-width:60rem}
.note{color:var(--soft);font-size:.9rem;max-width:60rem}
section.card,details.card{background:var(--card);border:1px solid var(--line);border-radius:10px;
padding:1.25rem 1.4rem;margin:1.1rem 0}
details.card>summary{cursor:pointer;font-weight:600}
details.card[open]>summary{margin-bottom:.7rem}
details.more{margin:.5rem 0}
details.more>summary{cursor:pointer;color:var(--soft);font-size:.9rem}
section.verdict{border-left:6px solid var(--line)}
section.verdict.met{border-left-color:var(--good)}
section.verdict.unmet{border-left-color:var(--bad)}
.verdict h2{font-size:1.35rem}
.verdict.met h2 b,.yes{color:var(--good)}
.verdict.unmet h2 b,.no{color:var(--bad)}
h2 small,h3 small{font-size:.85rem;font-weight:400;color:var(--soft)}
ul.items{list-style:none;margin:.6rem 0 0;padding:0}
ul.items li{display:grid;grid-template-columns:1.6rem 1fr;padding:.5rem 0;border-top:1px solid var(--rule)}
ul.items li .mark{font-weight:700}
ul.items li>div{display:flex;flex-wrap:wrap;gap:0 1.5rem}
ul.items li>div>div:first-child{flex:1 1 20rem}
ul.items li>div>div.note{flex:1 0 100%}
ul.items .figures{font-variant-numeric:tabular-nums}
ul.items .figures b{white-space:nowrap}
ol.wrong{margin:.6rem 0 0;padding:0;list-style:none}
ol.wrong>li{border-top:1px solid var(--rule);padding:.6rem 0}
ol.wrong h3,ol.wrong h4{margin:0;font-size:1rem}
.verdict h3{font-size:1.25rem;margin-top:0}
ol.wrong .numbers{color:var(--soft);font-size:.9rem}
.scroll{overflow-x:auto;margin:.6rem -.3rem 0;padding:0 .3rem}
table{border-collapse:collapse;width:100%;font-size:.92rem}
caption{text-align:left;font-weight:600;padding:.2rem 0 .4rem}
th,td{text-align:left;padding:.45rem .7rem;border-top:1px solid var(--rule);vertical-align:top}
thead th{border-top:0;border-bottom:1px solid var(--line);font-size:.85rem;color:var(--soft);font-weight:600;
vertical-align:bottom}
tbody th{font-weight:500;min-width:9rem}
th small,td small{display:block;color:var(--soft);font-size:.82rem;font-weight:400}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td.n small{white-space:nowrap}
table.flat th small{display:inline;margin-left:.6rem}
table.flat td small{display:inline;margin-left:.4rem}
td.words{white-space:normal;max-width:22rem}
td .unknown{white-space:normal;display:inline-block;max-width:16rem}
td.absent{color:var(--soft)}
td.over b{color:var(--bad)}
td code,th code,p code,li code{font-size:.9em}
code,pre{font-family:ui-monospace,SFMono-Regular,"Cascadia Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace}
pre{overflow-x:auto;background:var(--ground);border:1px solid var(--line);border-radius:8px;padding:.8rem 1rem;
font-size:.85rem;line-height:1.5;margin:.5rem 0 0}
pre.wrap{white-space:pre-wrap}
.facts{display:grid;grid-template-columns:max-content 1fr;gap:.3rem 1.2rem;margin:.4rem 0 0;font-size:.92rem}
.facts dt{color:var(--soft)}.facts dd{margin:0;overflow-wrap:anywhere}
.say{border-left:4px solid var(--line);padding:.15rem 0 .15rem .9rem;margin:.7rem 0}
.legend{display:flex;flex-wrap:wrap;gap:.3rem 1.2rem;margin:.5rem 0 .2rem;padding:0;list-style:none;font-size:.88rem;
color:var(--soft)}
.legend li{display:flex;align-items:center;gap:.45rem}
.legend svg{width:30px;height:14px;flex:none}
figure{margin:.6rem 0 0}
.pair{display:grid;grid-template-columns:1fr 1fr;gap:0 1.1rem}
.pair>section.card{min-width:0}
svg.chart{display:block;width:100%;height:auto;overflow:visible}
svg.chart.narrow{display:none}
.pair svg.chart.wide{display:none}
.pair svg.chart.narrow{display:block}
svg text{font:13px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Helvetica Neue",Arial,sans-serif;
fill:var(--ink);font-variant-numeric:tabular-nums}
svg .tick,svg .axis-label{fill:var(--soft)}
svg .tick{font-size:12px}
svg .strong{font-weight:600}
svg .halo{paint-order:stroke;stroke:var(--card);stroke-width:4px;stroke-linejoin:round}
svg .rule{stroke:var(--rule);stroke-width:1}
svg .axis{stroke:var(--soft);stroke-width:1}
svg .curve{fill:none;stroke-width:2;stroke-linejoin:round}
svg .strip{fill:none;stroke-width:1.4}
svg text.label{paint-order:stroke;stroke:var(--card);stroke-width:4px;stroke-linejoin:round}
.curve.measured,.strip.measured{stroke:var(--measured)}.dot.measured,text.measured{fill:var(--measured)}
.curve.simulated,.strip.simulated{stroke:var(--simulated)}.dot.simulated,text.simulated{fill:var(--simulated)}
.curve.more1,.strip.more1{stroke:var(--more1)}.dot.more1,text.more1{fill:var(--more1)}
.curve.more2,.strip.more2{stroke:var(--more2)}.dot.more2,text.more2{fill:var(--more2)}
.curve.simulated{stroke-dasharray:7 4}.curve.more1{stroke-dasharray:2 3}.curve.more2{stroke-dasharray:10 3 2 3}
line.bound{stroke:var(--bound);stroke-width:2;stroke-dasharray:12 4 2 4}text.bound{fill:var(--bound)}
line.limit{stroke:var(--bad);stroke-width:1.5;stroke-dasharray:4 4}text.limit{fill:var(--bad)}
line.centre{stroke:var(--soft);stroke-width:1}text.centre{fill:var(--soft)}
line.incident{stroke:var(--bad);stroke-width:1.4}text.incident{fill:var(--bad);font-weight:600}
rect.run{fill:var(--measured);opacity:.28}
.piece.wait{fill:var(--wait)}.piece.send{fill:var(--send)}.piece.wire{fill:var(--wire)}
.piece.receive{fill:var(--receive)}.piece.work{fill:var(--work)}
.piece.schedule{fill:var(--wait)}.piece.host{fill:var(--send)}.piece.stack{fill:var(--receive)}
.piece.untold{fill:none;stroke:var(--soft);stroke-dasharray:3 3}
.pair>figure{min-width:0}
svg text.inside{font-size:12px;fill:var(--piece)}
.beat{stroke:var(--line);stroke-width:1.5}
.life{stroke:var(--soft);stroke-width:1}.life.bridge{stroke-dasharray:3 4}
.phase.subscribe{fill:var(--subscribe)}.phase.application{fill:var(--application)}.phase.publish{fill:var(--publish)}
.launch{fill:var(--card);stroke:var(--ink);stroke-width:1.6}
.frame{stroke:var(--ink);stroke-width:2}.frame.head{fill:var(--ink);stroke:none}
.frame.other{stroke-width:1;opacity:.28}
.stay{stroke:var(--ink);stroke-width:2.2}.pause{fill:var(--card);stroke:var(--ink);stroke-width:1.8}
.spread{stroke:var(--ink);stroke-width:1.2}.stop{fill:var(--ink)}
footer{color:var(--soft);font-size:.85rem;margin-top:2rem}
@media screen and (min-width:821px){.pair svg text{font-size:11px}.pair svg .tick{font-size:10.5px}}
@media (max-width:820px){
main{padding:1.4rem .8rem 3rem}
h1{font-size:1.55rem}
section.card,details.card{padding:1rem .9rem}
.pair{grid-template-columns:1fr}
svg.chart.wide{display:none}svg.chart.narrow{display:block;max-width:36rem}
.facts{grid-template-columns:1fr;gap:0}.facts dd{margin-bottom:.5rem}
th,td{padding:.4rem .5rem}}
@media screen and (max-width:560px){
table.sides thead{display:none}
table.sides tr{display:grid;grid-template-columns:repeat(auto-fit,minmax(6rem,1fr));border-top:1px solid var(--rule);padding:.3rem 0}
table.sides th,table.sides td{border:0;padding:.15rem .1rem}
table.sides th{grid-column:1/-1}
table.sides td.n,table.sides td.n small{text-align:left;white-space:normal}
table.sides td b{font-size:.84rem;white-space:nowrap}
table.sides td::before{content:attr(data-label);display:block;color:var(--soft);font-size:.78rem}
.scroll{margin:.6rem 0 0;padding:0}}
@media print{
:root{color-scheme:light;--ground:#fff;--card:#fff;--ink:#000;--soft:#444;--line:#bbb;--rule:#ddd;
--measured:#0067a8;--simulated:#b25400;--more1:#007a5a;--more2:#a8327e;--bound:#6b3fa0;--good:#00704d;--bad:#b3261e;
--wait:#8fb8de;--send:#e3b23c;--wire:#5c6b7a;--receive:#7cc3a2;--work:#d59bc0;--piece:#14181d;
--subscribe:#8fb8de;--application:#d9c3e6;--publish:#b25400}
@page{margin:14mm}
body{font-size:10.5pt}main{padding:0;max-width:none}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
section.card,details.card,figure,table,li,pre{break-inside:avoid}
section.card.long,details.card,table.long,pre.long{break-inside:auto}
tr{break-inside:avoid}h2,h3,caption{break-after:avoid}
section.card,details.card{padding:.7rem .9rem;margin:.6rem 0}
.scroll{overflow:visible}pre{white-space:pre-wrap;overflow:visible}
svg.chart.wide{display:block}svg.chart.narrow{display:none}
.pair svg.chart.wide{display:none}.pair svg.chart.narrow{display:block}.pair{grid-template-columns:1fr 1fr}}
"#;
