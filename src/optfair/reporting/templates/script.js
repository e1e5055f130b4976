(function(){"use strict";
var $=function(selector,root){return[].slice.call((root||document).querySelectorAll(selector))};
$("[data-js]").forEach(function(x){x.hidden=false});
$("details.fold").forEach(function(x){x.open=false});
addEventListener("beforeprint",function(){$("details.fold").forEach(function(x){x.open=true})});
/* switches: one panel of a chart at a time */
$(".chart").forEach(function(chart){
var box=chart.querySelector(".switches");if(!box)return;
var panels=$(":scope>.panels>.panel",chart),status=box.querySelector("[role=status]");
function show(event){
var key=$("input:checked,input[type=hidden],select",box).map(function(x){return x.value}).join("-");
panels.forEach(function(panel){var on=panel.dataset.key===key;panel.classList.toggle("off",!on);
if(on&&event)status.textContent=panel.querySelector("h3").textContent});}
box.hidden=false;box.addEventListener("change",show);show();});
/* rates: which groups, in which order, as rate, difference or ratio */
var rates=document.getElementById("rates");
if(rates){
var tools=rates.querySelector(".tools"),limit=15;
var pick=function(name){var x=tools.querySelector("[name="+name+"]:checked,select[name="+name+"],input[type=search][name="+name+"]");return x?x.value:""};
var text=function(value,mode,overall,top){
if(mode==="difference"){var d=100*(value-overall),s=Math.abs(d).toFixed(1);return(s==="0.0"?"":d<0?"\u2212":"+")+s}
if(mode==="ratio")return top>0?(value/top).toFixed(2):"\u2013";
return(100*value).toFixed(1)+" %"};
var cells=function(row){return[].slice.call(row.cells,3)};
$("table.rates",rates).forEach(function(table){$("tr[data-f]",table).forEach(function(row,k){row.dataset.i=k;row.dataset.n=parseInt(row.cells[1].textContent.replace(/,/g,""),10)||0})});
var draw=function(){
var mode=pick("mode"),family=pick("family"),order=pick("order"),find=pick("find").toLowerCase(),all=tools.dataset.all==="1",hiddenRows=0;
$("table.rates",rates).forEach(function(table){
var body=table.tBodies[0],rows=$("tr[data-f]",body),last=body.querySelector("tr.all"),heads=$("tr.f",body);
var columns=last?$("td[data-v]",last).map(function(x){return+x.dataset.v}):[];
var value=function(row){var x=row.cells[row.cells.length-1];return x.dataset.v===undefined?NaN:+x.dataset.v};
var sorted=rows.slice();
if(order&&order!=="given")sorted.sort(function(a,b){
var u,v;if(order==="people"){u=-a.dataset.n;v=-b.dataset.n}
else if(order==="rate"){u=-value(a);v=-value(b)}else if(order==="name"){return a.cells[0].textContent.localeCompare(b.cells[0].textContent)}
else{var c=columns[columns.length-1];u=-Math.abs(value(a)-c);v=-Math.abs(value(b)-c)}
u=isNaN(u)?1e9:u;v=isNaN(v)?1e9:v;return u-v});
else sorted.sort(function(a,b){return a.dataset.i-b.dataset.i});
var count=0;
sorted.forEach(function(row){
var on=(!family||family==="all"||row.dataset.f===family)&&row.cells[0].textContent.toLowerCase().indexOf(find)>=0;
if(on)count++;
var cut=on&&!all&&count>limit&&!find;if(cut)hiddenRows=Math.max(hiddenRows,count-limit);
row.classList.toggle("off",!on||cut);
var top=$("tr[data-f='"+row.dataset.f+"']",body);
cells(row).forEach(function(cell,k){
if(cell.dataset.v===undefined)return;
var highest=Math.max.apply(null,top.map(function(x){var c=cells(x)[k];return c.dataset.v===undefined?-1:+c.dataset.v}));
cell.firstChild.nodeValue=text(+cell.dataset.v,mode,columns[k],highest);
var small=cell.querySelector("i");if(small)small.style.visibility=mode==="rate"?"":"hidden"});
body.insertBefore(row,last)});
heads.forEach(function(row){row.classList.toggle("off",!!family&&family!=="all"||!!find||order&&order!=="given");
var first=sorted.filter(function(x){return x.dataset.f===row.dataset.g})[0];if(first)body.insertBefore(row,first)});});
var more=rates.querySelector(".more");if(more){more.hidden=!hiddenRows;more.textContent="Show all groups ("+hiddenRows+" more)"}};
tools.addEventListener("change",draw);tools.addEventListener("input",draw);
var more=rates.querySelector(".more");if(more)more.addEventListener("click",function(){tools.dataset.all="1";draw()});
draw();}
/* the path of tolerances */
var slider=document.getElementById("tolerance");
if(slider){
var points=JSON.parse(document.getElementById("points").textContent),out=$("[data-o]",document.getElementById("path")),dots=$("#path .dot"),span=document.getElementById("span");
var move=function(){var k=+slider.value,point=points[k];
out.forEach(function(x){x.textContent=point[x.dataset.o]});
slider.setAttribute("aria-valuetext",point.spoken);
dots.forEach(function(dot,j){dot.classList.toggle("on",j===k);dot.setAttribute("r",j===k?6:4)});
if(span)span.setAttribute("d",point.d);
var bars=$("#path .bar"),by=point.by||[];bars.forEach(function(bar,j){bar.style.width=(by[j]===null||by[j]===undefined?0:100*by[j])+"%";
bar.parentNode.previousElementSibling.textContent=by[j]===null||by[j]===undefined?"\u2013":(100*by[j]).toFixed(1)+" %"})};
slider.addEventListener("input",move);
dots.forEach(function(dot,k){dot.style.cursor="pointer";dot.addEventListener("click",function(){slider.value=k;move()})});move();}
/* copy and downloads */
var copy=document.getElementById("copy");
if(copy)copy.addEventListener("click",function(){
var words=$(".verdict p").concat($("#summary dd")).map(function(x){return x.textContent.trim().replace(/\s+/g," ")}).join("\n");
var done=function(){copy.textContent="Copied"};
if(navigator.clipboard&&window.isSecureContext)navigator.clipboard.writeText(words).then(done,select);else select();
function select(){var area=document.createElement("textarea");area.value=words;document.body.appendChild(area);area.select();document.execCommand("copy");area.remove();done()}});
var printer=document.getElementById("print");if(printer)printer.addEventListener("click",function(){window.print()});
$("a[download$='.gz']").forEach(function(link){
if(window.DecompressionStream)link.addEventListener("click",function(event){event.preventDefault();
var bytes=Uint8Array.from(atob(link.href.split(",")[1]),function(c){return c.charCodeAt(0)});
new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).blob().then(function(blob){
var a=document.createElement("a");a.href=URL.createObjectURL(blob);a.download=link.download.slice(0,-3);a.click();URL.revokeObjectURL(a.href)})})});
})();
