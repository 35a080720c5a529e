//! The texts of all locales, each locale's in one piece.
//!
//! Invariant: no addresses. The crate's own form, lists of lists of texts, would be some thousand addresses that the loader
//! had to mend at each start of a program (0.05 ms); these bytes are read when they are wanted. Made when this is compiled.

use pure_rust_locales::Locale;

/// Ends a text.
pub(super) const END: u8 = 0;

/// Between the texts of a list of any length.
pub(super) const SEPARATOR: u8 = 1;

/// What is taken from a locale.
struct Source {
    point: &'static str,
    separator: &'static str,
    grouping: &'static [i64],
    /// Layouts of date and time, date, time, each without and with eras; then the one of 12 hours.
    layouts: [&'static str; 7],
    days: &'static [&'static str],
    days_short: &'static [&'static str],
    months: &'static [&'static str],
    months_short: &'static [&'static str],
    months_alone: &'static [&'static str],
    months_alone_short: &'static [&'static str],
    halves: &'static [&'static str],
    eras: &'static [&'static str],
    digits: &'static [&'static str],
}

const fn text(text: Option<&'static str>) -> &'static str {
    match text {
        Some(text) => text,
        None => "",
    }
}

const fn list(
    list: Option<&'static [&'static str]>,
    otherwise: &'static [&'static str],
) -> &'static [&'static str] {
    match list {
        Some(list) => list,
        None => otherwise,
    }
}

/// Bytes while they are put together; those past the end are only counted.
struct Packed<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Packed<N> {
    const fn byte(&mut self, byte: u8) {
        if self.len < N {
            self.bytes[self.len] = byte;
        }
        self.len += 1;
    }

    const fn text(&mut self, text: &str, end: u8) {
        let text = text.as_bytes();
        let mut at = 0;
        while at < text.len() {
            self.byte(text[at]);
            at += 1;
        }
        self.byte(end);
    }

    /// Exactly `count` texts.
    const fn texts(&mut self, list: &[&str], count: usize) {
        let mut at = 0;
        while at < count {
            self.text(if at < list.len() { list[at] } else { "" }, END);
            at += 1;
        }
    }

    const fn list(&mut self, list: &[&str]) {
        let mut at = 0;
        while at < list.len() {
            self.text(list[at], SEPARATOR);
            at += 1;
        }
        self.byte(END);
    }
}

const fn pack<const N: usize>(source: &Source) -> Packed<N> {
    let mut packed = Packed {
        bytes: [0; N],
        len: 0,
    };
    packed.text(source.point, END);
    packed.text(source.separator, END);
    // Sizes of groups as digits; one below 1 ends them (-1: no groups from there on; only ever the first is one).
    let mut at = 0;
    while at < source.grouping.len() && source.grouping[at] > 0 && source.grouping[at] < 10 {
        packed.byte(b'0' + source.grouping[at] as u8);
        at += 1;
    }
    packed.byte(END);
    packed.texts(&source.layouts, 7);
    packed.texts(source.days, 7);
    packed.texts(source.days_short, 7);
    packed.texts(source.months, 12);
    packed.texts(source.months_short, 12);
    packed.texts(source.months_alone, 12);
    packed.texts(source.months_alone_short, 12);
    packed.texts(source.halves, 2);
    packed.list(source.eras);
    packed.list(source.digits);
    packed
}

macro_rules! packed {
    ($($name:ident)*) => {
        /// The texts of a locale, each ended by [`END`]: point, separator, sizes of groups as digits, layouts, days, months,
        /// halves of the day, eras, digits. Empty for one that is not listed here.
        pub(super) fn texts(locale: Locale) -> &'static str {
            $(
                if locale == Locale::$name {
                    use pure_rust_locales::$name::{LC_NUMERIC as N, LC_TIME as T};
                    const SOURCE: Source = Source {
                        point: N::DECIMAL_POINT,
                        separator: N::THOUSANDS_SEP,
                        grouping: N::GROUPING,
                        layouts: [
                            T::D_T_FMT,
                            text(T::ERA_D_T_FMT),
                            T::D_FMT,
                            text(T::ERA_D_FMT),
                            T::T_FMT,
                            text(T::ERA_T_FMT),
                            T::T_FMT_AMPM,
                        ],
                        days: T::DAY,
                        days_short: T::ABDAY,
                        months: T::MON,
                        months_short: T::ABMON,
                        months_alone: list(T::ALT_MON, T::MON),
                        months_alone_short: list(T::AB_ALT_MON, T::ABMON),
                        halves: T::AM_PM,
                        eras: list(T::ERA, &[]),
                        digits: list(T::ALT_DIGITS, &[]),
                    };
                    const LEN: usize = pack::<0>(&SOURCE).len;
                    static TEXTS: Packed<LEN> = pack(&SOURCE);
                    return std::str::from_utf8(&TEXTS.bytes).unwrap_or_default();
                }
            )*
            ""
        }
    };
}

// Every locale of the crate; its own list is a macro that cannot be used for this.
packed! {
    POSIX aa_DJ aa_ER aa_ER_saaho aa_ET af_ZA agr_PE ak_GH am_ET an_ES anp_IN ar_AE ar_BH ar_DZ ar_EG ar_IN ar_IQ
    ar_JO ar_KW ar_LB ar_LY ar_MA ar_OM ar_QA ar_SA ar_SD ar_SS ar_SY ar_TN ar_YE as_IN ast_ES ayc_PE az_AZ az_IR
    be_BY be_BY_latin bem_ZM ber_DZ ber_MA bg_BG bhb_IN bho_IN bho_NP bi_VU bn_BD bn_IN bo_CN bo_IN br_FR
    br_FR_euro brx_IN bs_BA byn_ER ca_AD ca_ES ca_ES_euro ca_ES_valencia ca_FR ca_IT ce_RU chr_US cmn_TW crh_UA
    cs_CZ csb_PL cv_RU cy_GB da_DK de_AT de_AT_euro de_BE de_BE_euro de_CH de_DE de_DE_euro de_IT de_LI de_LU
    de_LU_euro doi_IN dsb_DE dv_MV dz_BT el_CY el_GR el_GR_euro en_AG en_AU en_BW en_CA en_DK en_GB en_HK en_IE
    en_IE_euro en_IL en_IN en_NG en_NZ en_PH en_SC en_SG en_US en_ZA en_ZM en_ZW eo es_AR es_BO es_CL es_CO es_CR
    es_CU es_DO es_EC es_ES es_ES_euro es_GT es_HN es_MX es_NI es_PA es_PE es_PR es_PY es_SV es_US es_UY es_VE
    et_EE eu_ES eu_ES_euro fa_IR ff_SN fi_FI fi_FI_euro fil_PH fo_FO fr_BE fr_BE_euro fr_CA fr_CH fr_FR fr_FR_euro
    fr_LU fr_LU_euro fur_IT fy_DE fy_NL ga_IE ga_IE_euro gd_GB gez_ER gez_ER_abegede gez_ET gez_ET_abegede gl_ES
    gl_ES_euro gu_IN gv_GB ha_NG hak_TW he_IL hi_IN hif_FJ hne_IN hr_HR hsb_DE ht_HT hu_HU hy_AM ia_FR id_ID ig_NG
    ik_CA is_IS it_CH it_IT it_IT_euro iu_CA ja_JP ka_GE kab_DZ kk_KZ kl_GL km_KH kn_IN ko_KR kok_IN ks_IN
    ks_IN_devanagari ku_TR kw_GB ky_KG lb_LU lg_UG li_BE li_NL lij_IT ln_CD lo_LA lt_LT lv_LV lzh_TW mag_IN mai_IN
    mai_NP mfe_MU mg_MG mhr_RU mi_NZ miq_NI mjw_IN mk_MK ml_IN mn_MN mni_IN mnw_MM mr_IN ms_MY mt_MT my_MM nan_TW
    nan_TW_latin nb_NO nds_DE nds_NL ne_NP nhn_MX niu_NU niu_NZ nl_AW nl_BE nl_BE_euro nl_NL nl_NL_euro nn_NO
    nr_ZA nso_ZA oc_FR om_ET om_KE or_IN os_RU pa_IN pa_PK pap_AW pap_CW pl_PL ps_AF pt_BR pt_PT pt_PT_euro quz_PE
    raj_IN ro_RO ru_RU ru_UA rw_RW sa_IN sah_RU sat_IN sc_IT sd_IN sd_IN_devanagari se_NO sgs_LT shn_MM shs_CA
    si_LK sid_ET sk_SK sl_SI sm_WS so_DJ so_ET so_KE so_SO sq_AL sq_MK sr_ME sr_RS sr_RS_latin ss_ZA st_ZA sv_FI
    sv_FI_euro sv_SE sw_KE sw_TZ szl_PL ta_IN ta_LK tcy_IN te_IN tg_TJ th_TH the_NP ti_ER ti_ET tig_ER tk_TM tl_PH
    tn_ZA to_TO tpi_PG tr_CY tr_TR ts_ZA tt_RU tt_RU_iqtelif ug_CN uk_UA unm_US ur_IN ur_PK uz_UZ uz_UZ_cyrillic
    ve_ZA vi_VN wa_BE wa_BE_euro wae_CH wal_ET wo_SN xh_ZA yi_US yo_NG yue_HK yuw_PG zh_CN zh_HK zh_SG zh_TW zu_ZA
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_are_in_their_places() {
        let texts: Vec<&str> = texts(Locale::de_DE).split('\0').collect();
        assert_eq!(texts[..3], [",", ".", "33"]);
        assert_eq!(texts[10..12], ["Sonntag", "Montag"]);
        // And behind the last end nothing.
        assert_eq!(texts.len(), 3 + 7 + 7 + 7 + 4 * 12 + 2 + 2 + 1);
    }
}
